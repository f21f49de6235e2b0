//! The data that a process of this user needs to enter the pods' network (`podium shell`, NET-7). Each start of the
//! cluster writes it into the data directory.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use super::addresses::AddressPlan;
use super::config::ClusterConfig;
use super::data_dir::{DataDir, DataDirError};
use super::fixed_services::API_OFFSET;
use super::host_process::process_config;
use fabric::LeafSpec;
use kubelet::runtime::{PodUid, ProcessRuntime, RuntimeError};
use object::ClusterDomain;

/// The path of the file, below the data directory.
const FILE: &str = "fabric/entry.json";
/// The API's port at its service.
const API_PORT: u16 = 443;
/// The maximum number of visitors (`podium shell`s outside pods and nodes); each has a leaf of its own.
const VISITORS: u32 = 64;

/// The network of a running instance, for a process that enters it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkEntry {
    /// The range of nodes. Its last addresses are the control plane's and the visitors'.
    nodes: Ipv4Net,
    /// The IPv6 range of nodes, if there is one.
    #[serde(default)]
    nodes_v6: Option<Ipv6Net>,
    /// The largest packet, in bytes.
    mtu: u32,
    /// The address of the API inside the network.
    pub api: SocketAddr,
    /// The address of the cluster's DNS; `None` if DNS is disabled.
    pub dns: Option<IpAddr>,
    /// The cluster's domain.
    pub domain: String,
}

impl NetworkEntry {
    pub(super) fn new(
        (nodes, nodes_v6): (Ipv4Net, Option<Ipv6Net>),
        mtu: u32,
        addresses: &AddressPlan,
        dns: Option<IpAddr>,
        domain: &ClusterDomain,
    ) -> Self {
        let api = SocketAddr::new(addresses.service(API_OFFSET).into(), API_PORT);
        Self { nodes, nodes_v6, mtu, api, dns, domain: domain.to_string() }
    }

    pub(super) fn write(&self, data_dir: &DataDir) -> Result<(), DataDirError> {
        let text = serde_json::to_string(self).expect("addresses and text are JSON");
        data_dir.write(FILE, &text)
    }

    /// Reads the entry of a data directory; `None` where pods share the machine's network.
    pub fn read(data_dir: &Path) -> Option<Self> {
        base::json::from_str(&std::fs::read_to_string(data_dir.join(FILE)).ok()?).ok()
    }

    /// The path of the fabric process's socket.
    pub fn socket(data_dir: &Path) -> PathBuf {
        data_dir.join("fabric/socket")
    }

    /// The leaves for visitors, in order of preference; a visitor uses the first free one. Their addresses count down
    /// from the end of the nodes' range, before the control plane's.
    pub fn visitors(&self) -> Vec<LeafSpec> {
        let (first, last) = (u32::from(self.nodes.network()), u32::from(self.nodes.broadcast()));
        // Visitors' addresses stay above the middle, since nodes' addresses count up from the beginning.
        let middle = first + (last - first) / 2;
        let places = (0..VISITORS).filter_map(|number| {
            let ip = last.checked_sub(2 + number).filter(|ip| *ip > middle)?;
            let second = self.nodes_v6.and_then(|nodes| visitor_v6(nodes, number)).map(IpAddr::from);
            let addresses = std::iter::once(Ipv4Addr::from(ip).into()).chain(second).collect();
            Some(LeafSpec::new(format!("visitor-{number}"), addresses, self.mtu))
        });
        places.collect()
    }
}

/// The IPv6 address of the visitor with this number, counted from the end of the nodes' range like the IPv4 address;
/// `None` if the range is too small.
fn visitor_v6(nodes: Ipv6Net, number: u32) -> Option<Ipv6Addr> {
    let (first, last) = (nodes.network().to_bits(), nodes.broadcast().to_bits());
    let ip = last.checked_sub(2 + u128::from(number))?;
    (ip > first + (last - first) / 2).then(|| Ipv6Addr::from_bits(ip))
}

/// Returns the network namespace of a node, or of a pod on it. The node's host process, with its socket in the
/// directory `node`, passes the descriptor.
pub async fn leaf_of(node: PathBuf, pod: Option<PodUid>) -> Result<OwnedFd, RuntimeError> {
    // The default configuration suffices: no process is started, and only the timeout of a response matters.
    ProcessRuntime::leaf(process_config(&ClusterConfig::default(), PathBuf::new(), node), pod).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entering_process_gets_an_address_apart_from_nodes_and_the_control_plane_net_7() {
        let places = |nodes: &str| {
            let entry = NetworkEntry::new(
                (nodes.parse().unwrap(), None),
                1500,
                &AddressPlan::unheld(),
                None,
                &ClusterDomain::default(),
            );
            let ips: Vec<_> = entry.visitors().iter().flat_map(|place| place.addresses.clone()).collect();
            (ips.first().copied(), ips.last().copied(), ips.len())
        };
        let ip = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        // The control plane is at 172.20.255.254.
        assert_eq!(places("172.20.0.0/16"), (ip("172.20.255.253"), ip("172.20.255.190"), 64));
        assert_eq!(
            places("172.20.0.0/29"),
            (ip("172.20.0.5"), ip("172.20.0.4"), 2),
            "nodes count up from below"
        );
        let both = ("172.20.0.0/16".parse().unwrap(), Some("fd00:172:20::/112".parse().unwrap()));
        let first = NetworkEntry::new(both, 1500, &AddressPlan::unheld(), None, &ClusterDomain::default())
            .visitors()
            .swap_remove(0);
        assert_eq!(first.addresses.get(1).copied(), ip("fd00:172:20::fffd"), "as in IPv4");
    }
}
