//! Host ports: pods that listen on the same port of a node cannot share the node.

use k8s_openapi::api::core::v1::{Container, ContainerPort, Pod, PodSpec};

use super::resources::is_sidecar;

const EVERY_ADDRESS: &str = "0.0.0.0";

/// A port of the node that a pod listens on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// The port's number.
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    pub(crate) protocol: String,
    /// The node's address listened on; `0.0.0.0` is every address.
    pub(crate) address: String,
}

impl HostPort {
    /// Returns the host ports of a pod's containers and sidecars.
    pub fn of(pod: &Pod) -> Vec<Self> {
        ports(pod)
            .map(|port| {
                let given = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
                Self {
                    port: port.host_port.unwrap_or_default(),
                    protocol: given(&port.protocol).unwrap_or_else(|| "TCP".into()),
                    address: given(&port.host_ip).unwrap_or_else(|| EVERY_ADDRESS.into()),
                }
            })
            .collect()
    }

    /// Returns true if a node cannot listen on both at once.
    pub fn conflicts(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address
                || self.address == EVERY_ADDRESS
                || other.address == EVERY_ADDRESS)
    }
}

/// Returns the ports of a pod's containers and sidecars that have a host port.
pub fn ports(pod: &Pod) -> impl Iterator<Item = &ContainerPort> {
    declared_ports(pod).filter(|port| port.host_port.is_some_and(|number| number > 0))
}

/// Returns the ports that a pod's containers and sidecars declare.
pub fn declared_ports(pod: &Pod) -> impl Iterator<Item = &ContainerPort> {
    let containers = pod.spec.iter().flat_map(containers);
    containers.flat_map(|container| container.ports.iter().flatten())
}

/// Returns true if two pods with these host ports cannot share a node.
pub fn conflict(requested: &[HostPort], taken: &[HostPort]) -> bool {
    requested.iter().any(|port| taken.iter().any(|other| port.conflicts(other)))
}

fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    let sidecars = spec.init_containers.iter().flatten().filter(|c| is_sidecar(c));
    spec.containers.iter().chain(sidecars)
}
