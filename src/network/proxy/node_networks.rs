//! The networks of nodes, where the proxy listens at a node's 127.0.0.1: what is sent there never leaves the node.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use fabric::SocketKind;
use futures::future::BoxFuture;
use rustix::net::sockopt;
use tokio::net::{TcpListener, UdpSocket};

use super::tcp::BACKLOG;

/// The networks of this machine's nodes.
pub trait NodeNetworks: Send + Sync + 'static {
    /// A new socket of the network of the node with this address; an error where no such node runs here.
    fn socket(&self, node: Ipv4Addr, kind: SocketKind) -> BoxFuture<'_, io::Result<OwnedFd>>;

    /// Waits until a node has a network, or another one: sockets of that before lead nowhere.
    fn renewed(&self) -> BoxFuture<'_, Ipv4Addr>;
}

/// Opens a listening socket in a node's network.
pub(super) async fn listen(
    nodes: &dyn NodeNetworks,
    node: Ipv4Addr,
    address: SocketAddr,
) -> io::Result<TcpListener> {
    let kind = if address.is_ipv4() { SocketKind::TcpV4 } else { SocketKind::TcpV6 };
    let socket = bound(nodes, node, (kind, address)).await?;
    rustix::net::listen(&socket, i32::try_from(BACKLOG).unwrap_or(i32::MAX))?;
    TcpListener::from_std(socket.into())
}

/// Opens a socket for datagrams in a node's network.
pub(super) async fn datagrams(
    nodes: &dyn NodeNetworks,
    node: Ipv4Addr,
    address: SocketAddr,
) -> io::Result<UdpSocket> {
    let kind = if address.is_ipv4() { SocketKind::UdpV4 } else { SocketKind::UdpV6 };
    UdpSocket::from_std(bound(nodes, node, (kind, address)).await?.into())
}

async fn bound(
    nodes: &dyn NodeNetworks,
    node: Ipv4Addr,
    (kind, address): (SocketKind, SocketAddr),
) -> io::Result<OwnedFd> {
    let socket = nodes.socket(node, kind).await?;
    if matches!(kind, SocketKind::TcpV4 | SocketKind::TcpV6) {
        // Connections that ended a moment ago must not keep the address.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}
