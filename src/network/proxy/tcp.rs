//! TCP connections: accepted at a service's bind address and joined with a connection to an endpoint.
//!
//! Data is relayed as fast as the receiver takes it, with buffers of fixed size. When one direction ends, that end is
//! passed on and the other direction continues. A reset is passed on as a reset, so that no client takes a truncated
//! response for a complete one.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, BufReader, Interest};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::{ProxyState, SharedBalancer};

/// Number of connections that the system holds until they are accepted.
pub(super) const BACKLOG: u32 = 4096;
/// Timeout for an endpoint to accept before the next one is tried.
const CONNECT: Duration = Duration::from_secs(5);
/// Buffer size for each direction in bytes.
const BUFFER: usize = 64 * 1024;

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

/// Relays data between two connections until both directions have ended or one connection was reset.
pub(crate) async fn join(mut client: TcpStream, mut backend: TcpStream) {
    // Small responses must not wait for more data; a failure only costs time.
    let _ = client.set_nodelay(true);
    let _ = backend.set_nodelay(true);
    if pass_both(&mut client, &mut backend).await.is_err() {
        let _ = client.set_zero_linger();
        let _ = backend.set_zero_linger();
    }
}

/// Relays both directions. After a side has ended its direction, it is still watched for a reset: a client that is gone
/// needs no response.
async fn pass_both(client: &mut TcpStream, backend: &mut TcpStream) -> io::Result<()> {
    let (client, to_client) = client.split();
    let (backend, to_backend) = backend.split();
    let (up, down) = (pass(client, to_backend), pass(backend, to_client));
    tokio::pin!(up, down);
    tokio::select! {
        ended = &mut up => {
            let client = ended?;
            tokio::select! {
                ended = down => ended.map(drop),
                reset = reset(client) => Err(reset),
            }
        }
        ended = &mut down => {
            let backend = ended?;
            tokio::select! {
                ended = up => ended.map(drop),
                reset = reset(backend) => Err(reset),
            }
        }
    }
}

/// Relays data from `from` until it ends, and passes on the end.
async fn pass<'a>(mut from: ReadHalf<'a>, mut to: WriteHalf<'_>) -> io::Result<ReadHalf<'a>> {
    tokio::io::copy_buf(&mut BufReader::with_capacity(BUFFER, &mut from), &mut to).await?;
    to.shutdown().await?;
    Ok(from)
}

/// Waits until a half-closed connection is reset, by its peer or because the peer no longer responds.
async fn reset(ended: ReadHalf<'_>) -> io::Error {
    match ended.ready(Interest::ERROR).await {
        Ok(_) => io::ErrorKind::ConnectionReset.into(),
        Err(error) => error,
    }
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

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::task::JoinHandle;

    use super::*;

    /// Two ends, joined by [`join`].
    async fn joined() -> (TcpStream, TcpStream, JoinHandle<()>) {
        let pair = async || {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            (near, listener.accept().await.unwrap().0)
        };
        let ((client, ours), (backend, theirs)) = (pair().await, pair().await);
        (client, backend, tokio::spawn(join(ours, theirs)))
    }

    #[tokio::test]
    async fn the_end_of_one_direction_leaves_the_other_net_2() {
        let (mut client, mut backend, join) = joined().await;
        client.write_all(b"asked").await.unwrap();
        client.shutdown().await.unwrap();
        let mut request = String::new();
        backend.read_to_string(&mut request).await.unwrap();
        assert_eq!(request, "asked");
        let long = vec![7; 4 * BUFFER];
        let answer = async {
            backend.write_all(&long).await.unwrap();
            drop(backend);
        };
        let mut answered = Vec::new();
        let ((), read) = tokio::join!(answer, client.read_to_end(&mut answered));
        read.unwrap();
        assert_eq!(answered, long);
        join.await.unwrap();
    }

    /// A client that has sent its request, closed its direction and gone holds no connection at the proxy.
    #[tokio::test]
    async fn a_client_that_half_closed_and_left_holds_no_connection_net_7() {
        for backend_ends_first in [false, true] {
            let (mut client, mut backend, join) = joined().await;
            if backend_ends_first {
                std::mem::swap(&mut client, &mut backend);
            }
            client.shutdown().await.unwrap();
            assert_eq!(backend.read(&mut [0]).await.unwrap(), 0);
            client.set_zero_linger().unwrap();
            drop(client);
            join.await.unwrap();
            let error = backend.read(&mut [0]).await;
            assert!(error.is_err() || error.is_ok_and(|read| read == 0));
        }
    }
}
