//! A small fabric that this thread creates to find out if the machine allows a fabric; it ends with the thread's
//! process.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use ipnet::Ipv4Net;
use rustix::net::sockopt::{self, Timeout};

use crate::daemon::new_namespaces;
use crate::namespaces::own_network;
use crate::nft::Nft;
use crate::sockets::{open_in, open_sockets};
use crate::{
    FabricError, LeafSpec, Namespaces, RouterConfig, RouterHandle, SocketKind, SocketSpec, has_ipv6, set_up,
};

/// Timeout of a connection; short, because no packet leaves this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The address range of the leaves.
pub const LEAVES: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 244, 0, 0), 24);
/// The address of the server's leaf.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 2);
/// The address of the client's leaf.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 3);

/// A router and two leaves. The process has entered the router for good.
#[derive(Debug)]
pub struct PreflightFabric {
    namespaces: Namespaces,
    trunk: RouterHandle,
    server: OwnedFd,
    client: OwnedFd,
}

impl PreflightFabric {
    /// Creates the fabric; the process must have one thread.
    pub fn start() -> Result<Self, FabricError> {
        let namespaces = new_namespaces()?;
        set_up(route()?, &RouterConfig { own: Vec::new(), cluster: vec![LEAVES.into()] })?;
        let trunk = RouterHandle::new(own_network()?, route()?);
        let leaf = |link: &str, ip: Ipv4Addr| trunk.leaf(&LeafSpec::new(link, vec![ip.into()], 1500));
        let (server, client) = (leaf("server", SERVER)?, leaf("client", CLIENT)?);
        Ok(Self { namespaces, trunk, server, client })
    }

    /// Joins another leaf with an address of each family, as pods have; it lasts as long as the returned descriptor.
    pub fn leaf(&self, number: u8) -> Result<OwnedFd, FabricError> {
        let v4 = Ipv4Addr::from(u32::from(LEAVES.network()) + 0x100 + u32::from(number));
        let v6 = Ipv6Addr::new(0xfd00, 0x10, 0x244, 0, 0, 0, 0, u16::from(number));
        let addresses = [IpAddr::from(v4), v6.into()].into_iter().take(1 + usize::from(has_ipv6())).collect();
        self.trunk.leaf(&LeafSpec::new(format!("leaf{number}"), addresses, 1500))
    }

    /// Returns the fabric's nftables.
    pub fn nft(&self) -> Result<Nft, FabricError> {
        Nft::new(one(open_sockets(&SocketSpec::new(SocketKind::Netfilter), 1)?)?)
    }

    /// Connects the client to an address and lets the server accept it. The server's address is its own or, for a
    /// transparent socket in the fabric itself (`transparent`), any.
    pub fn connects(&self, to: SocketAddr, server: SocketAddr, transparent: bool) -> Result<(), FabricError> {
        let home = self.namespaces.network.as_fd();
        let listens = SocketSpec {
            bind: Some(server),
            listen: Some(1),
            transparent,
            ..SocketSpec::new(SocketKind::TcpV4)
        };
        let listener = if transparent {
            open_sockets(&listens, 1)
        } else {
            open_in(self.server.as_fd(), home, &listens, 1)
        };
        let listener = waiting(one(listener?)?)?;
        let client_spec = SocketSpec::new(SocketKind::TcpV4);
        let asker = waiting(one(open_in(self.client.as_fd(), home, &client_spec, 1)?)?)?;
        let step = format!("connect to {to}");
        rustix::net::connect(&asker, &to).map_err(FabricError::at(&step))?;
        let taken = rustix::net::accept(&listener).map_err(FabricError::at(&step))?;
        let at = rustix::net::getsockname(&taken).map_err(FabricError::at(&step))?;
        let expected = if transparent { to } else { server };
        if SocketAddr::try_from(at).is_ok_and(|at| at == expected) {
            return Ok(());
        }
        Err(FabricError::new(step, io::Error::other("another program answered")))
    }
}

fn route() -> Result<OwnedFd, FabricError> {
    one(open_sockets(&SocketSpec::new(SocketKind::Route), 1)?)
}

fn one(sockets: Vec<OwnedFd>) -> Result<OwnedFd, FabricError> {
    let none = || FabricError::new("socket", io::ErrorKind::NotFound.into());
    sockets.into_iter().next().ok_or_else(none)
}

/// Sets a timeout of [`CONNECT_TIMEOUT`] on a socket.
fn waiting(socket: OwnedFd) -> Result<OwnedFd, FabricError> {
    let set = || {
        rustix::io::ioctl_fionbio(&socket, false)?;
        sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(CONNECT_TIMEOUT))?;
        sockopt::set_socket_timeout(&socket, Timeout::Send, Some(CONNECT_TIMEOUT))
    };
    set().map_err(FabricError::at("time-out"))?;
    Ok(socket)
}
