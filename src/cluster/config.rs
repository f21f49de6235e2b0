//! The configuration of a cluster: the options of the command line and of the config file.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use super::audit::AuditConfig;
use super::ipv6::Ipv6Config;
use super::node_settings::{NodeCounts, NodeSettings};
use crate::image_garbage::ImageGarbageConfig;
use base::did_you_mean::nearest;
use egress::HostPorts;
use images::ImageEntry;
use images::registry::RegistryConfig;
use kubelet::pressure::EvictionConfig;
use kubelet::runtime::hollow::HollowConfig;
use object::ClusterDomain;
use object::config::{Limits, NodeLifecycleConfig, Timings};

/// A part of the cluster that can be left out, by its name in kube-controller-manager.
pub(crate) type ComponentName = String;

/// A name that no component has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no component \"{name}\"{}; the components are {}", self.hint(), components.join(", "))]
pub struct UnknownComponent {
    /// The name as given.
    pub name: String,
    /// The known components.
    pub components: Vec<String>,
}

impl UnknownComponent {
    fn hint(&self) -> String {
        let near = nearest(&self.name, self.components.iter().map(String::as_str));
        near.map(|near| format!(", did you mean {near}?")).unwrap_or_default()
    }
}

/// The default number of nodes that run processes.
const DEFAULT_NODES: usize = 3;
/// The maximum number of nodes with processes: the nodes' range has addresses for that many.
pub const MOST_NODES: u16 = 1000;
/// The maximum number of hollow nodes.
pub const MOST_HOLLOW_NODES: u16 = 16_000;

/// The configuration of a cluster's start.
#[derive(Clone, Debug, Default)]
pub struct ClusterConfig {
    /// Removes all data at the end of the run.
    pub ephemeral: bool,
    /// Opens a damaged store as far as it is readable, although data is lost.
    pub accept_data_loss: bool,
    /// The API's listen address; `None` means 127.0.0.1:6443, or if that is taken the port of the
    /// last run or any free one.
    pub listen: Option<SocketAddr>,
    /// Permits listening beyond loopback.
    pub expose: bool,
    /// The number of nodes that run processes; `None` means the config file's.
    pub nodes: Option<usize>,
    /// The number of hollow nodes; `None` means the config file's.
    pub hollow_nodes: Option<usize>,
    /// The path of the kubeconfig; `None` means the one in the data directory.
    pub kubeconfig: Option<std::path::PathBuf>,
    /// Components that are left out.
    pub disabled: Vec<ComponentName>,
    /// Discovery includes the API versions that Kubernetes has removed; false means the config file's setting.
    pub legacy_versions: bool,
    /// The content of the config file.
    pub file: ConfigFile,
    /// The path of the config file, whose changes are followed; `None` means that there is none to follow.
    pub file_path: Option<std::path::PathBuf>,
    /// The reason why containers have a single user id; `None` if they have those of a system.
    pub single_id: Option<String>,
    /// The user's file of scenario runs; `None` means that runs are recorded only in the cluster.
    pub runs_file: Option<std::path::PathBuf>,
}

impl ClusterConfig {
    /// Returns true if a component is left out.
    pub fn is_disabled(&self, name: &str) -> bool {
        self.disabled.iter().any(|d| d == name)
    }

    /// Returns true if this cluster serves Ingresses.
    pub(super) fn serves_ingresses(&self) -> bool {
        self.file.ingress.enabled && !self.is_disabled("ingress")
    }

    /// Returns true if any declared node runs processes.
    pub(super) fn has_processes(&self) -> bool {
        let named = self.file.nodes.iter().any(|node| node.hollow == Some(false));
        !self.is_disabled("kubelet") && (named || self.counts(&self.file).nodes > 0)
    }

    /// The numbers of counted nodes according to this version of the config file; the command line takes precedence.
    pub fn counts(&self, file: &ConfigFile) -> NodeCounts {
        NodeCounts {
            nodes: self.nodes.or(file.node_count).unwrap_or(DEFAULT_NODES),
            hollow: self.hollow_nodes.or(file.hollow_node_count).unwrap_or(0),
        }
    }
}

/// The config file (`--config`), YAML.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ConfigFile {
    /// The control plane's timings, in seconds.
    pub timings: Timings,
    /// Images besides the built-in ones.
    pub images: Vec<ImageEntry>,
    /// Further repositories that stand for built-in images.
    pub registry: RegistryConfig,
    /// The removal of unused pulled images when the disk fills.
    pub image_garbage_collection: ImageGarbageConfig,
    /// The behavior of hollow nodes.
    pub hollow: HollowConfig,
    /// The number of nodes that run processes, unless the command line sets it; followed while the cluster runs.
    pub node_count: Option<usize>,
    /// The number of hollow nodes, unless the command line sets it; followed while the cluster runs.
    pub hollow_node_count: Option<usize>,
    /// Settings of single nodes, by name: of counted nodes, and of additional ones; followed while the cluster runs.
    #[serde(deserialize_with = "empty_when_null")]
    pub nodes: Vec<NodeSettings>,
    /// A directory of manifests whose pods run on every node that runs processes; `None` means each node's own
    /// directory `nodes/NAME/manifests` below the data directory.
    pub static_pod_path: Option<std::path::PathBuf>,
    /// The thresholds at which a node's pods are evicted.
    pub eviction: EvictionConfig,
    /// The rate at which pods of unresponsive nodes are evicted.
    pub node_lifecycle: NodeLifecycleConfig,
    /// The limits of the cluster.
    pub limits: Limits,
    /// The number of terminated pods that are retained; `None` means Kubernetes' 12 500, 0 means all.
    pub terminated_pod_threshold: Option<usize>,
    /// Discovery includes the API versions that Kubernetes has removed. Manifests in them are accepted in any case.
    #[serde(alias = "legacyVersions")]
    pub removed_api_versions: bool,
    /// The audit log of the API's requests.
    pub audit: AuditConfig,
    /// The scheduler's profiles: a KubeSchedulerConfiguration.
    pub scheduler: Option<serde_json::Value>,
    /// Pods get namespaces of their own where the machine allows it; false never tries.
    pub namespaces: bool,
    /// Control groups enforce limits if the machine allows it; false never tries.
    pub cgroups: bool,
    /// The maximum number of processes in a pod, if there are control groups.
    pub pod_pids_limit: Option<u64>,
    /// The network that pods are in.
    pub network: NetworkConfig,
    /// The DNS domain of services' names, as kubeadm's `networking.dnsDomain`.
    pub cluster_domain: ClusterDomain,
    /// The addresses at which Ingresses are served.
    pub ingress: IngressConfig,
    /// The first port that pods may bind; detected by default. A port below it is served at its number plus 8000.
    pub unprivileged_port_start: Option<u16>,
}

/// Reads a list. `null`, which is what a list with all its lines commented out parses to, is an empty list.
fn empty_when_null<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Option::<Vec<T>>::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl Default for ConfigFile {
    fn default() -> Self {
        Self {
            timings: Timings::default(),
            images: Vec::new(),
            registry: RegistryConfig::default(),
            image_garbage_collection: ImageGarbageConfig::default(),
            hollow: HollowConfig::default(),
            node_count: None,
            hollow_node_count: None,
            nodes: Vec::new(),
            static_pod_path: None,
            eviction: EvictionConfig::default(),
            node_lifecycle: NodeLifecycleConfig::default(),
            limits: Limits::default(),
            terminated_pod_threshold: None,
            removed_api_versions: false,
            audit: AuditConfig::default(),
            scheduler: None,
            namespaces: true,
            cgroups: true,
            pod_pids_limit: None,
            network: NetworkConfig::default(),
            cluster_domain: ClusterDomain::default(),
            ingress: IngressConfig::default(),
            unprivileged_port_start: None,
        }
    }
}

/// The network that pods are in (NET-5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct NetworkConfig {
    /// The network: the machine's, or the pods' own.
    pub mode: NetworkMode,
    /// The range of pods in a network of their own; each node gets a /24 of it. `None` means the first candidate that
    /// overlaps none of the machine's routes.
    #[serde(alias = "pods")]
    pub pod_subnet: Option<Ipv4Net>,
    /// The range of services' cluster IPs; chosen like `pod_subnet` if it is `None`.
    #[serde(alias = "services")]
    pub service_subnet: Option<Ipv4Net>,
    /// The range of nodes' addresses; chosen like `pod_subnet` if it is `None`.
    #[serde(alias = "nodes")]
    pub node_subnet: Option<Ipv4Net>,
    /// IPv6 in addition to IPv4, if the kernel supports it.
    pub ipv6: Ipv6Config,
    /// The largest packet in a network of their own, in bytes.
    pub mtu: u32,
    /// Ports of the machine's loopback that pods in a network of their own reach as `host.podium.internal`; 0 means
    /// all.
    pub host_ports: BTreeSet<u16>,
}

impl NetworkConfig {
    /// The ports of the machine that pods reach.
    pub(super) fn host_ports(&self) -> HostPorts {
        if self.host_ports.contains(&0) { HostPorts::All } else { HostPorts::Only(self.host_ports.clone()) }
    }
}

/// The addresses at which Ingresses are served (NET-9).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct IngressConfig {
    /// True if Ingresses are served.
    pub enabled: bool,
    /// The listen address; one that other machines can reach needs `--expose`.
    pub address: IpAddr,
    /// The HTTP port; any free port if this is 0 or occupied.
    #[serde(alias = "http")]
    pub http_port: u16,
    /// The HTTPS port; any free port if this is 0 or occupied.
    #[serde(alias = "https")]
    pub https_port: u16,
}

impl Default for IngressConfig {
    fn default() -> Self {
        Self { enabled: true, address: Ipv4Addr::LOCALHOST.into(), http_port: 18_080, https_port: 18_443 }
    }
}

/// The network that pods are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum NetworkMode {
    /// `fabric` if the machine allows it, else `loopback`
    #[default]
    Auto,
    /// The machine's network; each pod has an address in 127.0.0.0/8
    Loopback,
    /// A network namespace for each pod, joined by a router
    Fabric,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self {
            mode: NetworkMode::default(),
            pod_subnet: None,
            service_subnet: None,
            node_subnet: None,
            ipv6: Ipv6Config::default(),
            mtu: 1500,
            host_ports: BTreeSet::new(),
        }
    }
}
