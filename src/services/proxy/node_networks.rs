//! Node networks, in which the proxy listens at a node's 127.0.0.1: connections to it never leave the node.

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
    /// Opens a socket in the network of the node with this address; fails if no such node runs here.
    fn socket(&self, node: Ipv4Addr, kind: SocketKind) -> BoxFuture<'_, io::Result<OwnedFd>>;

    /// Waits until a node gets its first or another network, and returns the node's address; sockets of the previous
    /// network no longer work.
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

/// Opens a UDP socket in a node's network.
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
        // Recently closed connections must not keep the address in use.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}
