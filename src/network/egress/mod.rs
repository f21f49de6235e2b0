//! The way out of the cluster (NET-7): what pods send to the world is taken by the fabric, whatever its destination, and
//! sent on from this machine, as the user who runs it.
//!
//! A connection is accepted when the world has accepted it, and refused as the world refuses it: its first packet waits until
//! then ([`beginnings`]). Where that cannot be had it is accepted before, and what cannot be reached is reset. The machine's own
//! loopback is nobody's but by a name of its own, [`HOST`], and for the ports that the user has named.

mod asked;
mod beginnings;
mod destination;
mod relay;
mod tcp;
mod udp;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket as StdUdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::{Semaphore, oneshot};

use crate::share::Shares;
use base::task::Tasks;
pub use beginnings::OpenBeginnings;
pub use destination::{Destinations, HostPorts};
use fabric::nft::Family;

/// The name by which pods reach the machine itself.
pub const HOST: &str = "host.podium.internal";
/// The address that this name means.
pub const HOST_ADDRESS: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 2);
/// Where the fabric takes connections to the world.
const TCP_DOOR: u16 = 15_001;
/// Where it takes datagrams.
const UDP_DOOR: u16 = 15_002;

/// Connections at once, at most.
const CONNECTIONS: usize = 4096;
/// Flows of datagrams at once, at most.
const FLOWS: usize = 1024;

/// Opens a socket for datagrams inside that has an address of the world.
pub type OpenDatagrams = Arc<dyn Fn(SocketAddr) -> io::Result<StdUdpSocket> + Send + Sync>;
/// Has the kernel refuse somebody's connections to an address of the world for a moment.
pub type Refuse = Arc<dyn Fn(Refused) + Send + Sync>;

/// What is to be refused.
#[derive(Debug)]
pub struct Refused {
    /// Who connects.
    pub from: IpAddr,
    /// Where to.
    pub to: SocketAddr,
    /// How it is told.
    pub how: Refusal,
    /// Told once the kernel does; dropped where it does not.
    pub in_force: oneshot::Sender<()>,
}

/// How a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nobody listens there, or nobody may connect: by a reset.
    Reset,
    /// There is no way there: by ICMP.
    Unreachable,
}

/// Where the fabric takes what goes to the world in one family of addresses: on its own loopback.
pub fn door_addresses(family: Family) -> [SocketAddr; 2] {
    let own: IpAddr = match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    };
    [TCP_DOOR, UDP_DOOR].map(|port| SocketAddr::new(own, port))
}

/// Transparent sockets at [`door_addresses`].
pub struct Doors {
    /// For connections.
    pub connections: TcpListener,
    /// For datagrams.
    pub datagrams: UdpSocket,
}

/// How the way out is set up.
pub struct EgressConfig {
    /// Of each family that pods have.
    pub doors: Vec<Doors>,
    /// Where connections are asked for before they are accepted: the socket of their detour, and what makes it anew.
    pub beginnings: Option<(OwnedFd, OpenBeginnings)>,
    /// Opens the sockets that answers come from.
    pub open: OpenDatagrams,
    /// Refuses what could not be reached.
    pub refuse: Refuse,
    /// Where pods may go.
    pub destinations: Destinations,
    /// Descriptors of this process that this may take. A pod gets a quarter of the connections and flows that fit: one
    /// connection more is reset, one flow more takes the place of its eldest.
    pub descriptors: usize,
}

/// Opens the way out; it ends with `tasks`.
pub fn start(tasks: &Tasks, config: EgressConfig) {
    let EgressConfig { doors, beginnings, open, refuse, destinations, descriptors } = config;
    let destinations = Arc::new(destinations);
    // Each takes two descriptors; connections get the most of them.
    let all = (descriptors / 5 * 2).clamp(1, CONNECTIONS);
    let flows = (descriptors / 10).clamp(1, FLOWS);
    let (room, shares) = (Arc::new(Semaphore::new(all)), Shares::new(all));
    let relay = relay::Relay {
        destinations: destinations.clone(),
        refuse,
        room,
        shares,
        asked: asked::Asked::default(),
        tasks: tasks.clone(),
    };
    let relay = Arc::new(relay);
    if let Some((socket, open)) = beginnings {
        tasks.spawn("egress beginnings", beginnings::serve(socket, open, relay.clone()));
    }
    let flows = udp::Flows::new(destinations, open, tasks.clone(), flows);
    for Doors { connections, datagrams } in doors {
        tasks.spawn("egress connections", tcp::accept(connections, relay.clone()));
        tasks.spawn("egress datagrams", udp::receive(datagrams, flows.clone()));
    }
}
