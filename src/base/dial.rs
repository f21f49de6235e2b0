//! Opens connections from the machine's own network, or from another network namespace. There the socket must be
//! created inside the namespace before it connects.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::net::{TcpStream, UdpSocket};

/// The transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Streams.
    Tcp,
    /// Datagrams.
    Udp,
}

/// Opens connections from one network.
pub trait Dial: Send + Sync + 'static {
    /// Connects to an address; errors are the kernel's. There is no timeout here: callers set one.
    fn tcp(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>>;

    /// Returns a socket that sends datagrams to this address and receives only from it.
    fn udp(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<UdpSocket>>;
}

/// A shared [`Dial`].
pub type Dialer = Arc<dyn Dial>;

/// Dials from the network of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalDialer;

impl Dial for LocalDialer {
    fn tcp(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        TcpStream::connect(to).boxed()
    }

    fn udp(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<UdpSocket>> {
        async move {
            let own: IpAddr = match to {
                SocketAddr::V4(to) if to.ip().is_loopback() => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            connected(UdpSocket::bind((own, 0)).await?, to).await
        }
        .boxed()
    }
}

/// Connects a socket for datagrams.
pub async fn connected(socket: UdpSocket, to: SocketAddr) -> io::Result<UdpSocket> {
    socket.connect(to).await?;
    // Before the socket is known to be writable a send fails, and the first datagram is often the only one.
    socket.writable().await?;
    Ok(socket)
}

/// Connects to a host by address or name, which the machine resolves; tries its addresses one after the other.
pub async fn dial(dialer: &dyn Dial, host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = None;
    for address in tokio::net::lookup_host((host, port)).await? {
        match dialer.tcp(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no address")))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_name_is_dialled_by_its_addresses() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost"] {
            let (dialled, accepted) = tokio::join!(dial(&LocalDialer, host, port), listener.accept());
            drop(dialled.unwrap());
            assert_eq!(accepted.unwrap().0.read(&mut [0]).await.unwrap(), 0);
        }
        drop(listener);
        let refused = dial(&LocalDialer, "127.0.0.1", port).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
