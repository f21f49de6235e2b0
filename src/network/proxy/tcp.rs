//! Connections: accepted at a service's bind address, joined with one to an endpoint.
//!
//! What one side sends goes to the other as fast as that one takes it, with buffers of fixed size; the end of
//! one direction is passed on and the other goes on; a reset is passed on as a reset, so that nobody takes half
//! an answer for a whole one.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::{Shared, SharedBalancer};

/// Connections the system holds until they are accepted.
pub(super) const BACKLOG: u32 = 4096;
/// How long an endpoint may take to accept before the next one is asked.
const CONNECT: Duration = Duration::from_secs(5);
/// Bytes on their way in one direction.
const BUFFER: usize = 64 * 1024;

/// Opens a listening socket.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Connections that ended a moment ago must not keep the bind address.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts for as long as the listener is wanted; connections outlive it.
pub(super) async fn accept(listener: TcpListener, balancer: SharedBalancer, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((client, from)) => {
                // Never closed.
                let Ok(room) = shared.room.clone().acquire_owned().await else { return };
                let serve = serve(client, from, balancer.clone(), shared.clone());
                shared.connections.spawn("service connection", async move {
                    serve.await;
                    drop(room);
                });
            }
            // Out of descriptors, most likely: others are about to be closed.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn serve(client: TcpStream, from: SocketAddr, balancer: SharedBalancer, shared: Arc<Shared>) {
    let Some(backend) = connect(from.ip(), &balancer, &shared).await else {
        // Nobody took it. The nearest there is to "connection refused" for one that is open already.
        let _ = client.set_zero_linger();
        return;
    };
    join(client, backend).await;
}

/// Passes on what each of two connections says to the other, until both have ended or one was reset.
pub(crate) async fn join(mut client: TcpStream, mut backend: TcpStream) {
    // Small answers are not to wait for more; failing only costs time.
    let _ = client.set_nodelay(true);
    let _ = backend.set_nodelay(true);
    let relayed = tokio::io::copy_bidirectional_with_sizes(&mut client, &mut backend, BUFFER, BUFFER).await;
    if relayed.is_err() {
        let _ = client.set_zero_linger();
        let _ = backend.set_zero_linger();
    }
}

/// A connection to an endpoint: the balancer's choice, or the next one that accepts.
async fn connect(client: IpAddr, balancer: &SharedBalancer, shared: &Shared) -> Option<TcpStream> {
    let mut tried = Vec::new();
    loop {
        let pick = {
            let mut balancer = balancer.lock();
            let machine = balancer.asks_for_node().then(|| shared.machine());
            let node = machine.as_ref().and_then(|machine| machine.node_of(client));
            balancer.pick(client, node, &tried, shared.clock.monotonic())?
        };
        match tokio::time::timeout(CONNECT, shared.connect(client, pick)).await {
            Ok(Ok(stream)) => return Some(stream),
            // A pod that just ended, or does not listen yet; nothing was sent, so another may serve.
            Ok(Err(_)) | Err(_) => tried.push(pick),
        }
    }
}

impl Shared {
    async fn connect(&self, client: IpAddr, backend: SocketAddr) -> io::Result<TcpStream> {
        match &self.inside {
            Some(inside) => inside.dialer.tcp(backend).await,
            None => connect_from(client, backend).await,
        }
    }
}

/// Connects as the client where its address is a pod's: the endpoint sees whom it serves.
async fn connect_from(client: IpAddr, backend: SocketAddr) -> io::Result<TcpStream> {
    let is_pods = client.is_loopback() && client != IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    if is_pods && backend.ip().is_loopback() && backend.is_ipv4() {
        let socket = TcpSocket::new_v4()?;
        if socket.bind(SocketAddr::new(client, 0)).is_ok() {
            return socket.connect(backend).await;
        }
    }
    TcpStream::connect(backend).await
}
