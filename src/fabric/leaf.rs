//! Leaves: a network namespace with one link into the fabric.
//!
//! A leaf is routed: it has only its own addresses, and sends all packets to a gateway with an address that belongs to
//! no leaf. Both ends of the link know each other's Ethernet address, so that no ARP or neighbour discovery happens.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::{Deserialize, Serialize};

use crate::FabricError;
use crate::namespaces::{enter_network, own_network, unshare_network};
use crate::netlink::Netlink;
use crate::netlink::route::{self, LOOPBACK, MacAddress, Requests, alone, index_of};
use crate::sysctl::{self, FamilySettings};

/// The gateway of every leaf, for IPv4.
pub const GATEWAY_V4: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
/// The gateway of every leaf, for IPv6.
pub const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
/// The Ethernet address of the fabric's end of every link.
pub(crate) const FABRIC_MAC: MacAddress = [0xee; 6];
/// The name of the leaf's end of its link, as programs see it.
pub(crate) const LEAF_LINK: &str = "eth0";

/// The routing table for packets of a leaf's programs to the leaf's own addresses.
const OUTSIDE_TABLE: u8 = 101;
/// The priority of the rule for [`OUTSIDE_TABLE`]. The rule for the kernel's local table must be moved behind it.
const OUTSIDE_FIRST: u32 = 1;

/// The parameters of a leaf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafSpec {
    /// The name of the fabric's end of its link, at most 15 bytes; unique in the fabric.
    pub link: String,
    /// Its addresses: at most one of each family.
    pub addresses: Vec<IpAddr>,
    /// The largest packet in bytes.
    pub mtu: u32,
    /// Packets of the leaf's programs to the leaf's own addresses go through the fabric and come back, as packets from
    /// other leaves do. So programs of a node reach the services at the node's address.
    #[serde(default)]
    pub meets_itself_outside: bool,
}

impl LeafSpec {
    /// Describes a leaf whose programs reach its own addresses directly.
    pub fn new(link: impl Into<String>, addresses: Vec<IpAddr>, mtu: u32) -> Self {
        Self { link: link.into(), addresses, mtu, meets_itself_outside: false }
    }

    /// Makes programs of the leaf reach its own addresses through the fabric.
    #[must_use]
    pub fn meeting_itself_outside(self) -> Self {
        Self { meets_itself_outside: true, ..self }
    }
}

/// The handle for joining leaves to a fabric.
#[derive(Debug)]
pub struct RouterHandle {
    pub(crate) network: OwnedFd,
    pub(crate) route: Netlink,
}

/// The leaf's side of a link.
struct LeafInterface {
    namespace: OwnedFd,
    /// A route socket in the leaf's namespace.
    route: Netlink,
    /// The index of the leaf's link to the fabric.
    link: u32,
}

impl RouterHandle {
    /// Creates the handle from a fabric's network namespace and a route socket in it ([`crate::SocketKind::Route`]).
    pub fn new(network: OwnedFd, route: OwnedFd) -> Self {
        Self::from_parts(network, Netlink::from_descriptor(route))
    }

    pub(crate) fn from_parts(network: OwnedFd, route: Netlink) -> Self {
        Self { network, route }
    }

    /// Creates a leaf and returns its namespace. This thread enters the namespace and comes back. The remains of a leaf
    /// of the same name are removed.
    pub fn leaf(&self, spec: &LeafSpec) -> Result<OwnedFd, FabricError> {
        self.make(spec, None)
    }

    /// Makes a leaf of a namespace that exists already and has no link, as [`Self::leaf`] does of a new one.
    pub fn join(&self, spec: &LeafSpec, namespace: BorrowedFd<'_>) -> Result<(), FabricError> {
        self.make(spec, Some(namespace)).map(drop)
    }

    fn make(&self, spec: &LeafSpec, namespace: Option<BorrowedFd<'_>>) -> Result<OwnedFd, FabricError> {
        let home = own_network()?;
        let made = match self.configure_namespace(&home, spec, namespace) {
            // The link belongs to a leaf that lost its last process a moment ago: the kernel removes it asynchronously.
            Err(error) if error.source.kind() == io::ErrorKind::AlreadyExists => {
                // The kernel may have removed it just now.
                let _ = Requests::default().remove_link(&spec.link).send(&self.route);
                self.configure_namespace(&home, spec, namespace)
            }
            other => other,
        };
        self.connect(spec, made.map_err(|error| error.within("leaf"))?)
    }

    /// Like [`Self::leaf`], for the first of these specs with a free name: an existing leaf is left alone, even if it
    /// is about to be deleted. The error is that of the last spec.
    pub fn first_free_leaf(&self, specs: &[LeafSpec]) -> Result<(usize, OwnedFd), FabricError> {
        let home = own_network()?;
        let mut last = FabricError::new("leaf", io::ErrorKind::NotFound.into());
        for (place, spec) in specs.iter().enumerate() {
            match self.configure_namespace(&home, spec, None) {
                Ok(made) => return Ok((place, self.connect(spec, made)?)),
                Err(error) if error.source.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(error.within("leaf")),
            }
        }
        Err(last.within("leaf"))
    }

    /// Creates the leaf's side in this namespace or a new one, and comes back to `home` in every case.
    fn configure_namespace(
        &self,
        home: &OwnedFd,
        spec: &LeafSpec,
        namespace: Option<BorrowedFd<'_>>,
    ) -> Result<LeafInterface, FabricError> {
        namespace.map_or_else(unshare_network, enter_network)?;
        let made = self.furnish_inside(spec);
        enter_network(home.as_fd())?;
        made
    }

    fn furnish_inside(&self, spec: &LeafSpec) -> Result<LeafInterface, FabricError> {
        let namespace = own_network()?;
        let socket = route::open()?;
        let there = (spec.link.as_str(), FABRIC_MAC, self.network.as_fd());
        Requests::default().pair((LEAF_LINK, mac(spec)), there, spec.mtu).send(&socket)?;
        let index = index_of(&socket, LEAF_LINK)?;
        if spec.addresses.iter().any(IpAddr::is_ipv6) {
            // The machine may have disabled IPv6 for new namespaces.
            let settings = FamilySettings::of("ipv6")?;
            settings.set_if_exists("conf/all/disable_ipv6", "0")?;
            settings.set_if_exists("conf/eth0/disable_ipv6", "0")?;
            settings.set_if_exists("conf/eth0/accept_ra", "0")?;
        }
        let mut requests = Requests::default().up(LOOPBACK).up(index);
        for ip in &spec.addresses {
            let gateway = gateway(*ip);
            requests = requests.address(index, *ip).neighbour(gateway, FABRIC_MAC, index);
            if gateway.is_ipv4() {
                requests = requests.route(alone(gateway), index);
            }
            requests = requests.default_route(gateway, *ip, index);
        }
        requests.send(&socket)?;
        if spec.meets_itself_outside {
            enable_hairpin(&socket, index, &spec.addresses)?;
        }
        // In a network of its own every user may bind every port, and ping.
        let settings = FamilySettings::of("ipv4")?;
        settings.set("ip_unprivileged_port_start", "0")?;
        let group = rustix::process::getegid().as_raw();
        settings.set("ping_group_range", &format!("{group} {group}"))?;
        Ok(LeafInterface { namespace, route: socket, link: index })
    }

    /// Creates the fabric's side of a leaf and returns its namespace.
    fn connect(&self, spec: &LeafSpec, made: LeafInterface) -> Result<OwnedFd, FabricError> {
        self.furnish_fabric(spec).map_err(|error| error.within("fabric"))?;
        Requests::default()
            .start_forwarding(made.link)
            .send(&made.route)
            .map_err(|error| error.within("leaf"))?;
        Ok(made.namespace)
    }

    fn furnish_fabric(&self, spec: &LeafSpec) -> Result<(), FabricError> {
        let index = index_of(&self.route, &spec.link)?;
        let mut requests = Requests::default().up(index);
        for ip in &spec.addresses {
            requests = requests.route(alone(*ip), index).neighbour(*ip, mac(spec), index);
        }
        requests.send(&self.route)
    }
}

/// Routes the packets that a namespace sends to its own addresses to the gateway. Incoming packets are delivered as
/// before.
fn enable_hairpin(socket: &Netlink, index: u32, addresses: &[IpAddr]) -> Result<(), FabricError> {
    // The gateway is always the next hop, even if a redirect claims otherwise.
    for family in ["ipv4", "ipv6"] {
        sysctl::set_if_exists(&format!("{family}/conf/all/accept_redirects"), "0")?;
        sysctl::set_if_exists(&format!("{family}/conf/eth0/accept_redirects"), "0")?;
    }
    let mut requests = Requests::default();
    for ip in addresses {
        requests = requests
            .add_local_rule(*ip, OUTSIDE_TABLE, OUTSIDE_FIRST)
            .default_route_of(OUTSIDE_TABLE, gateway(*ip), *ip, index)
            .local_later(*ip, OUTSIDE_FIRST + 1);
    }
    requests.send(socket)
}

fn gateway(of: IpAddr) -> IpAddr {
    match of {
        IpAddr::V4(_) => GATEWAY_V4.into(),
        IpAddr::V6(_) => GATEWAY_V6.into(),
    }
}

/// Returns the leaf's Ethernet address, derived from its first address, in the locally administered range.
fn mac(spec: &LeafSpec) -> MacAddress {
    let last = match spec.addresses.first() {
        Some(IpAddr::V4(ip)) => ip.octets(),
        Some(IpAddr::V6(ip)) => {
            let [.., a, b, c, d] = ip.octets();
            [a, b, c, d]
        }
        None => [0; 4],
    };
    [0x02, 0x42, last[0], last[1], last[2], last[3]]
}
