//! Host ports: which pods cannot share a node because they listen on the same of its ports.

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use crate::object::resources::is_sidecar;

const EVERY_ADDRESS: &str = "0.0.0.0";

/// A port of the node that a pod listens on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// The port's number.
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The node's address listened on; `0.0.0.0` is every address.
    pub address: String,
}

impl HostPort {
    /// The host ports of a pod: of its containers and of its sidecars.
    pub fn of(pod: &Pod) -> Vec<Self> {
        let Some(spec) = &pod.spec else { return Vec::new() };
        containers(spec)
            .flat_map(|container| container.ports.iter().flatten())
            .filter_map(|port| {
                let number = port.host_port.filter(|number| *number > 0)?;
                let given = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
                Some(Self {
                    port: number,
                    protocol: given(&port.protocol).unwrap_or_else(|| "TCP".into()),
                    address: given(&port.host_ip).unwrap_or_else(|| EVERY_ADDRESS.into()),
                })
            })
            .collect()
    }

    /// Whether both cannot be listened on at once.
    pub fn conflicts(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address
                || self.address == EVERY_ADDRESS
                || other.address == EVERY_ADDRESS)
    }
}

fn containers(spec: &PodSpec) -> impl Iterator<Item = &k8s_openapi::api::core::v1::Container> {
    let sidecars = spec.init_containers.iter().flatten().filter(|c| is_sidecar(c));
    spec.containers.iter().chain(sidecars)
}
