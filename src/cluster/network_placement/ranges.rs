//! Chooses the ranges of the pods' own network so that they overlap none of the networks that the machine itself
//! reaches.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use crate::addresses::NetworkRanges;
use crate::config::NetworkConfig;
use base::optional_file::read_optional;

/// Candidates for the ranges of pods, services and nodes if the config file sets none: the first without an overlap is
/// used.
const PODS: [Ipv4Net; 4] = [net(10, 244, 14), net(10, 232, 14), net(10, 160, 14), net(100, 96, 14)];
const SERVICES: [Ipv4Net; 4] = [net(10, 96, 16), net(10, 192, 16), net(10, 208, 16), net(100, 112, 16)];
const NODES: [Ipv4Net; 4] = [net(172, 20, 16), net(172, 31, 16), net(10, 250, 16), net(100, 120, 16)];

const fn net(first: u8, second: u8, length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(first, second, 0, 0), length)
}

/// The ranges of the config file; those that it does not set are taken from `others`.
pub(super) fn or(requested: &NetworkConfig, others: &NetworkRanges) -> NetworkRanges {
    NetworkRanges {
        pods: requested.pod_subnet.unwrap_or(others.pods),
        services: requested.service_subnet.unwrap_or(others.services),
        nodes: requested.node_subnet.unwrap_or(others.nodes),
        v6: None,
    }
}

/// The IPv4 ranges of a new cluster: those of the config file, else the first that overlap none of the machine's
/// routes.
pub(super) fn choose(requested: &NetworkConfig, routes: &[Ipv4Net]) -> NetworkRanges {
    let first = |all: [Ipv4Net; 4]| {
        let free = |range: &&Ipv4Net| !routes.iter().any(|route| overlap(*route, **range));
        all.iter().find(free).copied().unwrap_or(all[0])
    };
    or(
        requested,
        &NetworkRanges { pods: first(PODS), services: first(SERVICES), nodes: first(NODES), v6: None },
    )
}

/// Describes the networks around the machine that pods cannot reach, because the cluster uses their addresses.
pub(super) fn hidden(ranges: &NetworkRanges, routes: &[Ipv4Net]) -> Option<String> {
    let named = [("pods", ranges.pods), ("services", ranges.services), ("nodes", ranges.nodes)];
    let both = named.into_iter().flat_map(|(name, range)| {
        let meets = routes.iter().filter(move |route| overlap(**route, range));
        meets.map(move |route| format!("{route} ({name} use {range})"))
    });
    let all: Vec<String> = both.take(8).collect();
    (!all.is_empty()).then(|| {
        format!(
            "pods cannot reach these networks of the machine: {}; set other ranges in the config file's \"network\"",
            all.join("; ")
        )
    })
}

fn overlap(one: Ipv4Net, other: Ipv4Net) -> bool {
    one.contains(&other) || other.contains(&one)
}

/// Returns a line with the ranges.
pub(super) fn text(NetworkRanges { pods, services, nodes, .. }: &NetworkRanges) -> String {
    format!("fabric pods={pods} services={services} nodes={nodes}")
}

/// Parses a line of [`text`].
pub(super) fn read(line: &str) -> Option<NetworkRanges> {
    let mut fields = line.split_whitespace();
    if fields.next() != Some("fabric") {
        return None;
    }
    let mut next = |name: &str| fields.next()?.strip_prefix(name)?.strip_prefix('=')?.parse().ok();
    Some(NetworkRanges { pods: next("pods")?, services: next("services")?, nodes: next("nodes")?, v6: None })
}

/// The machine's routes, except the default route.
pub(super) fn routes() -> Vec<Ipv4Net> {
    read_routes(&read_optional("/proc/net/route"))
}

/// Parses `/proc/net/route`: hexadecimal numbers in the machine's byte order, the mask in the eighth column.
fn read_routes(table: &str) -> Vec<Ipv4Net> {
    let route = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let number = |column: usize| u32::from_str_radix(columns.get(column)?, 16).ok();
        let ip = |number: u32| Ipv4Addr::from(number.to_ne_bytes());
        Ipv4Net::with_netmask(ip(number(1)?), ip(number(7)?)).ok().filter(|net| net.prefix_len() > 0)
    };
    table.lines().skip(1).filter_map(route).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(text: &str) -> Vec<Ipv4Net> {
        text.split_whitespace().map(|net| net.parse().unwrap()).collect()
    }

    #[test]
    fn routes_are_read_net_5() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                     eth0\t00000000\t010012AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                     eth0\t000014AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n\
                     nonsense\n";
        assert_eq!(read_routes(table), nets("172.20.0.0/16"));
    }

    #[test]
    fn new_clusters_hide_nothing_that_the_machine_reaches_net_5() {
        let config = NetworkConfig::default();
        for (routes, pods, services, nodes) in [
            ("", "10.244.0.0/14", "10.96.0.0/16", "172.20.0.0/16"),
            ("172.16.0.0/12", "10.244.0.0/14", "10.96.0.0/16", "10.250.0.0/16"),
            ("10.0.0.0/8", "100.96.0.0/14", "100.112.0.0/16", "172.20.0.0/16"),
            ("10.246.7.0/24", "10.232.0.0/14", "10.96.0.0/16", "172.20.0.0/16"),
            // If no range is free, the default ranges are used.
            ("0.0.0.0/1 128.0.0.0/1", "10.244.0.0/14", "10.96.0.0/16", "172.20.0.0/16"),
        ] {
            let chosen = choose(&config, &nets(routes));
            let expected = nets(&format!("{pods} {services} {nodes}"));
            assert_eq!(vec![chosen.pods, chosen.services, chosen.nodes], expected, "{routes}");
            assert_eq!(read(&text(&chosen)), Some(chosen));
        }
        let requested = NetworkConfig { node_subnet: "192.168.0.0/16".parse().ok(), ..config };
        let chosen = choose(&requested, &nets("192.168.1.0/24"));
        assert_eq!(chosen.nodes, nets("192.168.0.0/16")[0], "the requested subnet is used");
        let warning = hidden(&chosen, &nets("192.168.1.0/24 10.1.0.0/16")).unwrap();
        assert!(
            warning.contains("192.168.1.0/24 (nodes use 192.168.0.0/16)") && !warning.contains("10.1."),
            "{warning}"
        );
    }

    #[test]
    fn nonsense_is_no_network_net_5() {
        for line in
            ["", "fabric", "loopback", "fabric pods=1 services=2 nodes=3", "fabric services=10.0.0.0/8"]
        {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
