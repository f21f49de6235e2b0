//! Connections to the world, joined with one from this machine.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::{Destinations, Refuse};
use crate::proxy::tcp::join;
use base::task::Tasks;

/// How long the world may take to accept.
const CONNECT: Duration = Duration::from_secs(30);

/// What all connections share.
pub(super) struct Relay {
    pub(super) destinations: Arc<Destinations>,
    pub(super) refuse: Refuse,
    pub(super) room: Arc<Semaphore>,
    pub(super) tasks: Tasks,
}

/// Accepts for ever.
pub(super) async fn accept(listener: TcpListener, relay: Arc<Relay>) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                // Never closed.
                let Ok(room) = relay.room.clone().acquire_owned().await else { return };
                let serve = serve(client, relay.clone());
                relay.tasks.spawn("egress connection", async move {
                    serve.await;
                    drop(room);
                });
            }
            // Out of descriptors, most likely: others are about to be closed.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn serve(client: TcpStream, relay: Arc<Relay>) {
    // A transparent socket's own address is where its client wanted to go.
    let Ok(asked) = client.local_addr() else { return };
    let connected = match relay.destinations.resolve(asked) {
        Some(to) => connect(to).await,
        None => None,
    };
    if let Some(world) = connected {
        return join(client, world).await;
    }
    (relay.refuse)(asked);
    let _ = client.set_zero_linger();
}

async fn connect(to: SocketAddr) -> Option<TcpStream> {
    tokio::time::timeout(CONNECT, TcpStream::connect(to)).await.ok()?.ok()
}
