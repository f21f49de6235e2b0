//! Where pods may go in the world, and where that is from this machine.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ipnet::Ipv4Net;

use super::HOST_ADDRESS;

/// Which ports of the machine's loopback pods reach by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPorts {
    /// All.
    All,
    /// These.
    Only(BTreeSet<u16>),
}

/// Where pods may go.
#[derive(Clone, Debug)]
pub struct Destinations {
    /// The cluster's own ranges: what comes here of them is nobody's.
    pub cluster: Vec<Ipv4Net>,
    /// Ports of the machine.
    pub host: HostPorts,
}

impl Destinations {
    /// Where to connect for what a pod has asked for; none where it may not go.
    pub(super) fn resolve(&self, asked: SocketAddr) -> Option<SocketAddr> {
        let IpAddr::V4(ip) = asked.ip() else { return None };
        if ip == HOST_ADDRESS {
            let allowed = match &self.host {
                HostPorts::All => true,
                HostPorts::Only(ports) => ports.contains(&asked.port()),
            };
            return allowed.then(|| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), asked.port()));
        }
        let nobodys = ip.is_loopback()
            || ip.is_unspecified()
            || ip.is_multicast()
            || ip.is_broadcast()
            || ip.is_link_local()
            || self.cluster.iter().any(|range| range.contains(&ip));
        (!nobodys && asked.port() != 0).then_some(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_world_is_open_and_the_machines_loopback_by_its_name_alone_net_7() {
        let cluster = vec!["10.244.0.0/16".parse().unwrap()];
        let host = HostPorts::Only([5432].into());
        let destinations = Destinations { cluster, host };
        for (asked, resolved) in [
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
        ] {
            let expected = resolved.map(|text| text.parse().unwrap());
            assert_eq!(destinations.resolve(asked.parse().unwrap()), expected, "{asked}");
        }
        let all = Destinations { cluster: Vec::new(), host: HostPorts::All };
        assert_eq!(all.resolve("169.254.1.2:22".parse().unwrap()), Some("127.0.0.1:22".parse().unwrap()));
    }
}
