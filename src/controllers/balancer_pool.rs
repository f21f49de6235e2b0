//! The pool of load balancer addresses (NET-6), and their form in a service's status.

use std::net::Ipv4Addr;

use ipnet::{IpAdd, IpSub, Ipv4Net};
use k8s_openapi::api::core::v1::{LoadBalancerIngress, Service};

/// The pool of load balancer addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancerPool {
    /// The addresses for clients in the cluster's own network.
    pub addresses: Ipv4Net,
    /// The range with the mirrors of these addresses, at the same offsets, for programs of the machine; `None` if
    /// they use the same addresses.
    pub mirrors: Option<Ipv4Net>,
}

impl BalancerPool {
    /// Returns the status entries of an address, the machine's mirror first.
    pub(crate) fn points(&self, address: Ipv4Addr) -> Vec<LoadBalancerIngress> {
        let point = |ip: Ipv4Addr, mode: &str| LoadBalancerIngress {
            ip: Some(ip.to_string()),
            ip_mode: Some(mode.to_owned()),
            ..LoadBalancerIngress::default()
        };
        let mirror = self.mirrors.map(|range| map_address(range, address, self.addresses));
        mirror.map(|mirror| point(mirror, "Proxy")).into_iter().chain([point(address, "VIP")]).collect()
    }

    /// Returns the service's address from the pool.
    pub(crate) fn address_of(&self, service: &Service) -> Option<Ipv4Addr> {
        points_of(service).iter().find_map(|point| self.parse(point.ip.as_deref()?))
    }

    /// Returns true if a service has an address of the pool.
    pub(crate) fn has_address(&self, service: &Service) -> bool {
        self.address_of(service).is_some()
    }

    /// Parses an address of the pool, given itself or by its mirror.
    pub(crate) fn parse(&self, text: &str) -> Option<Ipv4Addr> {
        let ip = text.parse::<Ipv4Addr>().ok()?;
        if self.addresses.contains(&ip) {
            return Some(ip);
        }
        let mirrors = self.mirrors.filter(|range| range.contains(&ip))?;
        Some(map_address(self.addresses, ip, mirrors))
    }

    /// Returns all assignable addresses, lowest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = Ipv4Addr> {
        // Leaves out the range's network and broadcast addresses, which programs treat specially.
        self.addresses.hosts()
    }
}

/// Returns the address at the same offset in another range.
fn map_address(range: Ipv4Net, address: Ipv4Addr, of: Ipv4Net) -> Ipv4Addr {
    range.network().saturating_add(address.saturating_sub(of.network()))
}

/// Returns the load balancer addresses in a service's status.
pub(crate) fn points_of(service: &Service) -> &[LoadBalancerIngress] {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    balancer.and_then(|balancer| balancer.ingress.as_deref()).unwrap_or_default()
}
