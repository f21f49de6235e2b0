//! TCP connections: accepted at a service's bind address and joined with a connection to an endpoint.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::{ProxyState, SharedBalancer};
use base::tcp_relay::join;

/// Number of connections that the system holds until they are accepted.
pub(super) const BACKLOG: u32 = 4096;
/// Timeout for an endpoint to accept before the next one is tried.
const CONNECT: Duration = Duration::from_secs(5);

pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Recently closed connections must not keep the bind address in use.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts until the task is stopped; connections outlive it.
pub(super) async fn accept(listener: TcpListener, balancer: SharedBalancer, shared: Arc<ProxyState>) {
    loop {
        match listener.accept().await {
            Ok((client, from)) => {
                // The semaphore is never closed.
                let Ok(room) = shared.permits.clone().acquire_owned().await else { return };
                let serve = serve(client, from, balancer.clone(), shared.clone());
                shared.connections.spawn("service connection", async move {
                    serve.await;
                    drop(room);
                });
            }
            // Most likely the process is out of descriptors, and other connections will close soon.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn serve(client: TcpStream, from: SocketAddr, balancer: SharedBalancer, shared: Arc<ProxyState>) {
    let Some(backend) = connect(from.ip(), &balancer, &shared).await else {
        // No endpoint accepted. A reset is the closest to "connection refused" for a connection that is open already.
        let _ = client.set_zero_linger();
        return;
    };
    join(client, backend).await;
}

/// Connects to the balancer's choice, or else to the next endpoint that accepts.
async fn connect(client: IpAddr, balancer: &SharedBalancer, shared: &ProxyState) -> Option<TcpStream> {
    let mut tried = Vec::new();
    loop {
        let pick = {
            let mut balancer = balancer.lock();
            let machine = balancer.is_topology_aware().then(|| shared.machine());
            let node = machine.as_ref().and_then(|machine| machine.node_of(client));
            balancer.pick(client, node, &tried, shared.clock.monotonic())?
        };
        match tokio::time::timeout(CONNECT, shared.connect(client, pick)).await {
            Ok(Ok(stream)) => return Some(stream),
            // The pod has just ended, or does not listen yet. Nothing was sent, so another endpoint may serve.
            Ok(Err(_)) | Err(_) => tried.push(pick),
        }
    }
}

impl ProxyState {
    async fn connect(&self, client: IpAddr, backend: SocketAddr) -> io::Result<TcpStream> {
        match &self.inside {
            Some(inside) => inside.dialer.tcp(backend).await,
            None => connect_from(client, backend).await,
        }
    }
}

/// Connects from the client's address if that is a pod's, so that the endpoint sees its real client.
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
