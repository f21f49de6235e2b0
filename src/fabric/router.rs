//! The fabric as a router: its own addresses, the destinations it rejects, and those it receives for egress.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use ipnet::IpNet;

use crate::netlink::Netlink;
use crate::netlink::route::{LOOPBACK, Requests};
use crate::{FabricError, GATEWAY_V4};

/// The fabric itself receives packets with this mark, for any destination: the egress from the cluster.
pub(crate) const LOCAL_MARK: u32 = 1;
/// The routing table that delivers packets with [`LOCAL_MARK`] locally.
const LOCAL_TABLE: u8 = 100;

/// The parts of the cluster's configuration that a fabric needs.
#[derive(Clone, Debug)]
pub struct RouterConfig {
    /// The fabric's own addresses, at which the control plane serves inside.
    pub own: Vec<IpAddr>,
    /// All addresses of pods, nodes and services: packets to unassigned ones do not leave the cluster.
    pub cluster: Vec<IpNet>,
}

/// Makes a fabric a router, over a route socket in it ([`crate::SocketKind::Route`]). Idempotent.
pub fn set_up(route: OwnedFd, config: &RouterConfig) -> Result<(), FabricError> {
    let socket = Netlink::from_descriptor(route);
    let families: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    let has_v6 = config.cluster.iter().any(|range| range.addr().is_ipv6());
    let mut requests = Requests::default().up(LOOPBACK).address(LOOPBACK, GATEWAY_V4.into());
    for ip in &config.own {
        requests = requests.address(LOOPBACK, *ip);
    }
    for family in families.into_iter().filter(|family| family.is_ipv4() || has_v6) {
        match Requests::default().add_mark_rule(LOCAL_MARK, LOCAL_TABLE, family).send(&socket) {
            Err(error) if error.source.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error.within("router"));
            }
            _ => requests = requests.everything_is_local(LOCAL_TABLE, family),
        }
    }
    for range in &config.cluster {
        requests = requests.unreachable(*range);
    }
    requests.send(&socket).map_err(|error| error.within("router"))
}
