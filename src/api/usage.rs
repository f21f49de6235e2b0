//! Resource usage of nodes and pods, as last measured by the kubelets: in memory only, never stored.
//!
//! The kubelets report one node's measurement at a time; `apiserver::metrics` serves it as metrics.k8s.io, and the
//! autoscaler reads it here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::Api;
use base::clock::since;
use object::SharedObject;

/// A measurement older than this many of its windows is stale.
const STALE_WINDOWS: u32 = 4;

/// Present resource usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    /// Billionths of a core, averaged over the window.
    pub cpu_nanocores: u64,
    /// Memory in use, in bytes: the working set if cgroups measure it.
    pub memory_bytes: u64,
    /// Total CPU time. A container's restarts at zero with each of its starts; a pod's and a node's only grow
    /// while they are measured.
    pub cpu_time: Duration,
}

impl std::ops::AddAssign for ResourceUsage {
    fn add_assign(&mut self, other: Self) {
        self.cpu_nanocores = self.cpu_nanocores.saturating_add(other.cpu_nanocores);
        self.memory_bytes = self.memory_bytes.saturating_add(other.memory_bytes);
        self.cpu_time = self.cpu_time.saturating_add(other.cpu_time);
    }
}

/// Usage of a pod's containers, by container name.
pub type PodUsage = BTreeMap<String, ResourceUsage>;

/// Usage of a volume's file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeUsage {
    /// Its size.
    pub capacity_bytes: u64,
    /// Bytes available to users other than root.
    pub available_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// The maximum number of files; 0 if the file system does not count them.
    pub inodes: u64,
    /// The number of files that can still be created; 0 if the file system does not count them.
    pub inodes_free: u64,
}

/// One measurement of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeUsage {
    /// The time of the measurement.
    pub at: Timestamp,
    /// The same moment on the node's own clock, which may be off: the time that is reported.
    pub reported_at: Timestamp,
    /// The time over which CPU was averaged.
    pub window: Duration,
    /// All pods together.
    pub total: ResourceUsage,
    /// The usage of each pod's containers, by the pod's uid.
    pub pods: BTreeMap<String, PodUsage>,
    /// Total CPU time of each of these pods, over all of its containers.
    pub pod_cpu_times: BTreeMap<String, Duration>,
    /// The usage of volumes by the pod's uid and the volume's name; only volumes of claims whose file systems
    /// respond.
    pub volumes: BTreeMap<String, BTreeMap<String, VolumeUsage>>,
}

impl Api {
    /// Replaces a node's measurement; `None` removes it.
    pub fn set_node_usage(&self, node: &str, usage: Option<NodeUsage>) {
        let mut all = self.inner.usage.write();
        match usage {
            Some(usage) => all.insert(node.to_string(), Arc::new(usage)),
            None => all.remove(node),
        };
    }

    /// Returns the newest measurement of a node; `None` if there is none or it is stale.
    pub fn node_usage(&self, node: &str) -> Option<Arc<NodeUsage>> {
        let usage = self.inner.usage.read().get(node).cloned()?;
        let age = since(self.server_clock().now(), usage.at);
        (age <= usage.window.saturating_mul(STALE_WINDOWS)).then_some(usage)
    }

    /// Returns the newest measurement of a pod's node, and the usage of the pod's containers in it.
    pub fn pod_usage(&self, pod: &SharedObject<Pod>) -> Option<(Arc<NodeUsage>, PodUsage)> {
        let node = self.node_usage(pod.spec.as_ref()?.node_name.as_deref()?)?;
        let containers = node.pods.get(super::node_access::runtime_uid(pod))?.clone();
        Some((node, containers))
    }
}
