//! Connections from a node's network or from a pod's, and sockets in a node's network. The node's host opens them,
//! since it runs inside these networks.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::Interest;
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::sync::watch;

use super::connection::SharedConnection;
use crate::runtime::{PodUid, RuntimeError};
use base::dial::{Dial, connected};
use fabric::{SocketKind, descriptors};
use host::protocol::Purpose;

/// The number of sockets of a node's network in one request: probes often need one.
const AT_ONCE: usize = 16;

/// Dials from the node's network, or from a pod's.
pub(super) struct HostDialer {
    pub(super) shared: Arc<SharedConnection>,
    /// `None` means the node's network.
    pub(super) pod: Option<PodUid>,
}

impl Dial for HostDialer {
    fn tcp(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        async move {
            let kind = if to.is_ipv4() { SocketKind::TcpV4 } else { SocketKind::TcpV6 };
            let socket = self.socket(kind).await.map_err(io::Error::other)?;
            TcpSocket::from_std_stream(socket.into()).connect(to).await
        }
        .boxed()
    }

    fn udp(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<UdpSocket>> {
        async move {
            let kind = if to.is_ipv4() { SocketKind::UdpV4 } else { SocketKind::UdpV6 };
            let socket = self.shared.one_socket(self.pod.clone(), kind).await.map_err(io::Error::other)?;
            connected(UdpSocket::from_std(socket.into())?, to).await
        }
        .boxed()
    }
}

impl HostDialer {
    async fn socket(&self, kind: SocketKind) -> Result<OwnedFd, RuntimeError> {
        if self.pod.is_some() {
            return self.shared.one_socket(self.pod.clone(), kind).await;
        }
        if let Some(ready) = self.shared.ready_sockets.lock().take(kind) {
            return Ok(ready);
        }
        let before = *self.shared.ready_sockets.lock().generation.borrow();
        let (first, sockets) = self.shared.sockets(None, kind, AT_ONCE).await?;
        self.shared.ready_sockets.lock().insert(before, kind, sockets);
        Ok(first)
    }
}

/// Opens sockets in a node's own network, for as long as its runtime lives.
#[derive(Clone)]
pub struct NodeSockets(pub(super) Weak<SharedConnection>);

impl NodeSockets {
    /// A socket that is neither bound nor connected.
    pub async fn open(&self, kind: SocketKind) -> io::Result<OwnedFd> {
        let shared = self.0.upgrade().ok_or(io::ErrorKind::NotConnected)?;
        shared.one_socket(None, kind).await.map_err(io::Error::other)
    }

    /// Changes whenever the node may have a new network: sockets of the previous one are dead. Closed when the
    /// runtime has ended.
    pub fn renewed(&self) -> watch::Receiver<u64> {
        let renewed = self.0.upgrade().map(|shared| shared.ready_sockets.lock().generation.subscribe());
        renewed.unwrap_or_else(|| watch::Sender::new(0).subscribe())
    }
}

impl SharedConnection {
    async fn one_socket(&self, pod: Option<PodUid>, kind: SocketKind) -> Result<OwnedFd, RuntimeError> {
        self.sockets(pod, kind, 1).await.map(|(socket, _)| socket)
    }

    /// Opens sockets: at least one, and as many more as the host sent.
    async fn sockets(
        &self,
        pod: Option<PodUid>,
        kind: SocketKind,
        count: usize,
    ) -> Result<(OwnedFd, Vec<OwnedFd>), RuntimeError> {
        let mut opened = self.descriptors(Purpose::Sockets { pod, kind, count }).await?;
        let first = opened.pop().ok_or_else(|| super::host_error("the node host sent no socket"))?;
        Ok((first, opened))
    }

    /// Requests descriptors from the host.
    pub(super) async fn descriptors(&self, purpose: Purpose) -> Result<Vec<OwnedFd>, RuntimeError> {
        let timeout = self.config.request_timeout;
        let received = async {
            let (stream, _) = self.connect(purpose, timeout).await.map_err(RuntimeError::from)?;
            let receive = || descriptors::receive(stream.as_fd(), &mut [0]);
            let received = stream.async_io(Interest::READABLE, receive).await;
            received.map(|(_, descriptors)| descriptors).map_err(super::host_error)
        };
        let timed = tokio::time::timeout(timeout, received).await;
        timed.unwrap_or_else(|_| Err(super::host_error(format!("no answer within {timeout:?}"))))
    }
}
