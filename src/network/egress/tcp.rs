//! Connections to the world, joined with one from this machine.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::{Destinations, Refuse};
use crate::proxy::tcp::join;
use crate::share::Shares;
use base::task::Tasks;

/// How long the world may take to accept.
const CONNECT: Duration = Duration::from_secs(30);
/// After so much silence the other side is asked whether it is there,
const ALIVE_AFTER: Duration = Duration::from_mins(1);
/// as often as this,
const ALIVE_EVERY: Duration = Duration::from_secs(15);
/// until so many questions were in vain.
const ALIVE_TIMES: u32 = 4;

/// What all connections share.
pub(super) struct Relay {
    pub(super) destinations: Arc<Destinations>,
    pub(super) refuse: Refuse,
    pub(super) room: Arc<Semaphore>,
    pub(super) shares: Arc<Shares>,
    pub(super) tasks: Tasks,
}

/// Accepts for ever.
pub(super) async fn accept(listener: TcpListener, relay: Arc<Relay>) {
    loop {
        // Never closed.
        let Ok(room) = relay.room.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((client, from)) => {
                let Some(share) = relay.shares.take(from.ip()) else {
                    // Nothing is wrong with where it wants to go: others are not refused for that.
                    let _ = client.set_zero_linger();
                    continue;
                };
                let serve = serve(client, relay.clone());
                relay.tasks.spawn("egress connection", async move {
                    serve.await;
                    drop((share, room));
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
        // Who is gone without a word holds nothing for ever.
        for side in [&client, &world] {
            if let Err(error) = keep_asking(side) {
                tracing::debug!(%error, %asked, "a side that is gone may not be noticed");
            }
        }
        return join(client, world).await;
    }
    (relay.refuse)(asked);
    let _ = client.set_zero_linger();
}

fn keep_asking(socket: impl AsFd) -> rustix::io::Result<()> {
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, ALIVE_AFTER)?;
    sockopt::set_tcp_keepintvl(&socket, ALIVE_EVERY)?;
    sockopt::set_tcp_keepcnt(&socket, ALIVE_TIMES)
}

async fn connect(to: SocketAddr) -> Option<TcpStream> {
    tokio::time::timeout(CONNECT, TcpStream::connect(to)).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use parking_lot::Mutex;
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::egress::HostPorts;

    #[tokio::test]
    async fn a_pod_over_its_share_is_reset_and_where_it_wanted_to_go_is_not_refused_net_7() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let door = listener.local_addr().unwrap();
        let refused = Arc::new(Mutex::new(Vec::new()));
        let told = refused.clone();
        let (shares, tasks) = (Shares::new(1), Tasks::new());
        let relay = Relay {
            destinations: Arc::new(Destinations { cluster: Vec::new(), host: HostPorts::All }),
            refuse: Arc::new(move |address| told.lock().push(address)),
            room: Arc::new(Semaphore::new(8)),
            shares: shares.clone(),
            tasks: tasks.clone(),
        };
        tasks.spawn("test", accept(listener, Arc::new(relay)));
        let ends = async || {
            let mut client = TcpStream::connect(door).await.unwrap();
            client.read(&mut [0]).await.unwrap_err().kind()
        };
        let share = shares.take(door.ip()).unwrap();
        assert_eq!(ends().await, ErrorKind::ConnectionReset);
        assert!(refused.lock().is_empty());
        drop(share);
        // The machine's own loopback is nobody's: that is told.
        assert_eq!(ends().await, ErrorKind::ConnectionReset);
        assert_eq!(*refused.lock(), [door]);
        tasks.stop().await;
    }
}
