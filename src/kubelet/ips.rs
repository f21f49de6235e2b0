//! The addresses of a pod or node: at most one of each family, the cluster's primary family first.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::Ipv6Net;

/// One address or two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ips {
    pub(crate) first: Option<IpAddr>,
    pub(crate) second: Option<IpAddr>,
}

/// A node's IPv6 addresses, in a cluster with both families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeIpv6 {
    /// The node's address.
    pub ip: Ipv6Addr,
    /// The range of its pods' addresses.
    pub pods: Ipv6Net,
}

impl NodeIpv6 {
    /// The IPv6 address of the pod whose IPv4 address has this offset in the node's range: both addresses belong to the
    /// same pod.
    pub(crate) fn of_pod(&self, offset: u32) -> Option<IpAddr> {
        let ip = Ipv6Addr::from_bits(self.pods.network().to_bits().checked_add(offset.into())?);
        self.pods.contains(&ip).then_some(ip.into())
    }
}

impl Ips {
    /// Returns all addresses.
    pub(crate) fn all(self) -> impl Iterator<Item = IpAddr> {
        self.first.into_iter().chain(self.second)
    }

    /// Returns the first address as text; empty if there is none.
    pub(crate) fn first_text(self) -> String {
        self.first.map(|ip| ip.to_string()).unwrap_or_default()
    }

    /// All addresses in the downward API's format.
    pub(crate) fn text(self) -> String {
        self.all().map(|ip| ip.to_string()).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_second_address_follows_from_its_first_net_5() {
        let node = NodeIpv6 { ip: "fd00::1".parse().unwrap(), pods: "fd00:10:244:3::/64".parse().unwrap() };
        let second = node.of_pod(5);
        assert_eq!(second.map(|ip| ip.to_string()).as_deref(), Some("fd00:10:244:3::5"));
        let small = NodeIpv6 { pods: "fd00::/126".parse().unwrap(), ..node };
        assert_eq!(small.of_pod(4), None, "of another's");
        let both = Ips { first: "10.244.3.5".parse().ok(), second };
        assert_eq!(
            (both.first_text(), both.text()),
            ("10.244.3.5".into(), "10.244.3.5,fd00:10:244:3::5".into())
        );
        assert_eq!(Ips::default().text(), "");
    }
}
