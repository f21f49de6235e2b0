//! Egress from the cluster (NET-7): the fabric diverts what pods send to the world, to any destination, and
//! Podium sends it on from this machine, as the user who runs it.
//!
//! Podium connects to the destination first and accepts the pod's connection only if that succeeds; otherwise the pod
//! sees the destination's refusal. The pod's SYN waits until then ([`handshake`]). Where connecting first is
//! impossible, Podium accepts the pod's connection at once and resets it if the destination cannot be reached. Pods
//! reach the machine's own loopback only under the name [`HOST`], and only at the ports that the user has allowed.

mod context;
mod destination;
mod handshake;
mod pending_handshakes;
mod tcp;
mod udp;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket as StdUdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::{Semaphore, oneshot};

use base::client_limiter::ClientLimiter;
use base::task::Tasks;
pub use destination::{Destinations, HostPorts};
use fabric::nft::Family;
pub use handshake::OpenDetourFn;

/// The name under which pods reach the machine itself.
pub const HOST: &str = "host.podium.internal";
/// The address that [`HOST`] resolves to.
pub const HOST_ADDRESS: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 2);
/// The port to which the fabric diverts TCP connections to the world.
const TCP_PORT: u16 = 15_001;
/// The port to which the fabric diverts UDP datagrams to the world.
const UDP_PORT: u16 = 15_002;

/// Maximum number of concurrent connections.
const CONNECTIONS: usize = 4096;
/// Maximum number of concurrent UDP flows.
const FLOWS: usize = 1024;

/// Opens a UDP socket inside the fabric that is bound to an address of the world.
pub type OpenDatagrams = Arc<dyn Fn(SocketAddr) -> io::Result<StdUdpSocket> + Send + Sync>;
/// Makes the kernel refuse connections from one pod to one address of the world for a moment.
pub type RefuseFn = Arc<dyn Fn(RefusalRequest) + Send + Sync>;

/// A request to refuse connections.
#[derive(Debug)]
pub struct RefusalRequest {
    /// The pod's address.
    pub from: IpAddr,
    /// The destination.
    pub to: SocketAddr,
    /// The kind of refusal.
    pub how: RefusalKind,
    /// Notified once the refusal is in force; dropped if it cannot be put in force.
    pub in_force: oneshot::Sender<()>,
}

/// The way in which a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// By a TCP reset: nothing listens at the destination, or connecting is not allowed.
    Reset,
    /// By ICMP: the destination is unreachable.
    Unreachable,
}

/// Returns the addresses of the fabric's loopback to which the fabric diverts the TCP and UDP traffic to the world, for
/// one address family.
pub fn listener_addresses(family: Family) -> [SocketAddr; 2] {
    let own: IpAddr = match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    };
    [TCP_PORT, UDP_PORT].map(|port| SocketAddr::new(own, port))
}

/// Transparent sockets at [`listener_addresses`].
pub struct EgressListeners {
    /// Listener for connections.
    pub connections: TcpListener,
    /// Socket for datagrams.
    pub datagrams: UdpSocket,
}

/// Configuration of the egress relay.
pub struct EgressConfig {
    /// Sockets for each address family that pods have.
    pub listeners: Vec<EgressListeners>,
    /// The socket of the detour for SYNs, and the function that opens it again; `None` if connections are accepted
    /// before Podium connects to the destination.
    pub syn_detour: Option<(OwnedFd, OpenDetourFn)>,
    /// Opens the sockets from which replies to datagrams are sent.
    pub open: OpenDatagrams,
    /// Refuses connections to destinations that could not be reached.
    pub refuse: RefuseFn,
    /// The destinations that pods may reach.
    pub destinations: Destinations,
    /// Number of file descriptors that egress may use. One pod may have a quarter of the connections and flows for
    /// which they suffice: a further connection is reset, a further flow replaces the pod's least recently used one.
    pub descriptors: usize,
}

/// Starts the egress relay; it ends with `tasks`.
pub fn start(tasks: &Tasks, config: EgressConfig) {
    let EgressConfig { listeners, syn_detour, open, refuse, destinations, descriptors } = config;
    let destinations = Arc::new(destinations);
    // Each connection or flow needs two descriptors; connections get most of them.
    let all = (descriptors / 5 * 2).clamp(1, CONNECTIONS);
    let flows = (descriptors / 10).clamp(1, FLOWS);
    let relay = context::EgressContext {
        destinations: destinations.clone(),
        refuse,
        permits: Arc::new(Semaphore::new(all)),
        shares: ClientLimiter::new(all),
        pending: pending_handshakes::PendingHandshakes::default(),
        tasks: tasks.clone(),
    };
    let relay = Arc::new(relay);
    if let Some((socket, open)) = syn_detour {
        tasks.spawn("egress handshakes", handshake::serve(socket, open, relay.clone()));
    }
    let flows = udp::FlowTable::new(destinations, open, tasks.clone(), flows);
    for EgressListeners { connections, datagrams } in listeners {
        tasks.spawn("egress connections", tcp::accept(connections, relay.clone()));
        tasks.spawn("egress datagrams", udp::receive(datagrams, flows.clone()));
    }
}
