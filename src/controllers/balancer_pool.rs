//! The addresses that load balancers may have (NET-6), and how a service's status says that it has one.

use std::net::Ipv4Addr;

use ipnet::{IpAdd, IpSub, Ipv4Net};
use k8s_openapi::api::core::v1::{LoadBalancerIngress, Service};

/// The addresses that load balancers may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancerPool {
    /// Those that clients of the cluster's own network use.
    pub addresses: Ipv4Net,
    /// Where programs of the machine meet them: addresses at the same places of another range. None where these are the
    /// same.
    pub mirrors: Option<Ipv4Net>,
}

impl BalancerPool {
    /// How a status says that a service has an address: first where the machine's programs meet it.
    pub(crate) fn points(&self, address: Ipv4Addr) -> Vec<LoadBalancerIngress> {
        let point = |ip: Ipv4Addr, mode: &str| LoadBalancerIngress {
            ip: Some(ip.to_string()),
            ip_mode: Some(mode.to_owned()),
            ..LoadBalancerIngress::default()
        };
        let mirror = self.mirrors.map(|range| place_in(range, address, self.addresses));
        mirror.map(|mirror| point(mirror, "Proxy")).into_iter().chain([point(address, "VIP")]).collect()
    }

    /// The address of the pool that a service has.
    pub(crate) fn given_to(&self, service: &Service) -> Option<Ipv4Addr> {
        points_of(service).iter().find_map(|point| self.known(point.ip.as_deref()?))
    }

    /// Whether a service has an address of the pool.
    pub(crate) fn has_given(&self, service: &Service) -> bool {
        self.given_to(service).is_some()
    }

    /// An address of the pool, by itself or by what stands for it.
    pub(crate) fn known(&self, text: &str) -> Option<Ipv4Addr> {
        let ip = text.parse::<Ipv4Addr>().ok()?;
        if self.addresses.contains(&ip) {
            return Some(ip);
        }
        let mirrors = self.mirrors.filter(|range| range.contains(&ip))?;
        Some(place_in(self.addresses, ip, mirrors))
    }

    /// All addresses that can be given, lowest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = Ipv4Addr> {
        // Neither the range's own nor its broadcast address: programs take these for something else.
        self.addresses.hosts()
    }
}

/// The address at the same place of another range.
fn place_in(range: Ipv4Net, address: Ipv4Addr, of: Ipv4Net) -> Ipv4Addr {
    range.network().saturating_add(address.saturating_sub(of.network()))
}

/// Where a service says that its load balancer is.
pub(crate) fn points_of(service: &Service) -> &[LoadBalancerIngress] {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    balancer.and_then(|balancer| balancer.ingress.as_deref()).unwrap_or_default()
}
