//! Destinations in the world: which ones pods may reach, and the address of each as seen from this machine.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ipnet::IpNet;

use super::HOST_ADDRESS;

/// The ports of the machine's loopback that pods may reach under its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPorts {
    /// All ports.
    All,
    /// These ports only.
    Only(BTreeSet<u16>),
}

/// The destinations that pods may reach.
#[derive(Clone, Debug)]
pub struct Destinations {
    /// The cluster's own ranges. Packets to these ranges that reach egress belong to no pod or service, and are
    /// refused.
    pub cluster: Vec<IpNet>,
    /// The ports of the machine that are open to pods.
    pub host: HostPorts,
}

impl Destinations {
    /// Returns the address to connect to for a pod's destination; `None` if pods may not reach it.
    pub(super) fn resolve(&self, destination: SocketAddr) -> Option<SocketAddr> {
        // An IPv4-mapped IPv6 address is the same destination as the IPv4 address.
        let ip = destination.ip().to_canonical();
        if ip == HOST_ADDRESS {
            let allowed = match &self.host {
                HostPorts::All => true,
                HostPorts::Only(ports) => ports.contains(&destination.port()),
            };
            return allowed.then(|| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), destination.port()));
        }
        let nobodys = is_unroutable(ip) || self.cluster.iter().any(|range| range.contains(&ip));
        (!nobodys && destination.port() != 0).then_some(SocketAddr::new(ip, destination.port()))
    }
}

/// Returns whether an address belongs to no host of the world: it is the machine's own, or valid only on the machine's
/// links.
fn is_unroutable(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            ip.is_loopback()
                || ip.is_unspecified()
                || ip.is_multicast()
                || ip.is_broadcast()
                || ip.is_link_local()
        }
        IpAddr::V6(ip) => {
            // IPv4-compatible addresses such as `::127.0.0.1` are not routed, and some could mean the machine.
            let is_compatible = ip.segments()[..6] == [0; 6];
            is_compatible || ip.is_multicast() || ip.is_unicast_link_local()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_world_is_open_and_the_machines_loopback_by_its_name_alone_net_7() {
        let cluster = ["10.244.0.0/16", "fd00:10:244::/54"].map(|text| text.parse().unwrap()).to_vec();
        let host = HostPorts::Only([5432].into());
        let destinations = Destinations { cluster, host };
        for (destination, resolved) in [
            ("93.184.216.34:443", Some("93.184.216.34:443")),
            ("192.168.1.7:80", Some("192.168.1.7:80")),
            ("169.254.1.2:5432", Some("127.0.0.1:5432")),
            ("169.254.1.2:22", None),
            ("127.0.0.1:5432", None),
            ("127.64.0.3:80", None),
            ("0.0.0.0:80", None),
            ("169.254.169.254:80", None),
            ("224.0.0.251:5353", None),
            ("255.255.255.255:67", None),
            ("10.244.9.9:80", None),
            ("93.184.216.34:0", None),
            ("[::1]:80", None),
            ("[::]:80", None),
            ("[::ffff:127.0.0.1]:80", None),
            ("[::ffff:10.244.9.9]:80", None),
            ("[::ffff:93.184.216.34]:80", Some("93.184.216.34:80")),
            ("[::127.0.0.1]:80", None),
            ("[fe80::1]:80", None),
            ("[ff02::fb]:5353", None),
            ("[fd00:10:244::9]:80", None),
            ("[2606:2800:220:1::1]:443", Some("[2606:2800:220:1::1]:443")),
            ("[fd12::7]:443", Some("[fd12::7]:443")),
        ] {
            let expected = resolved.map(|text| text.parse().unwrap());
            assert_eq!(destinations.resolve(destination.parse().unwrap()), expected, "{destination}");
        }
        let all = Destinations { cluster: Vec::new(), host: HostPorts::All };
        assert_eq!(all.resolve("169.254.1.2:22".parse().unwrap()), Some("127.0.0.1:22".parse().unwrap()));
    }
}
