//! What nodes and pods use, as their kubelets measured it last: kept in memory, never stored.
//!
//! The kubelets hand in a whole node's measurement at a time; `http::metrics` serves it as metrics.k8s.io,
//! and the autoscaler reads it here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::Api;
use base::clock::since;
use object::Shared;

/// A measurement older than this many of its windows says nothing about now.
const STALE_WINDOWS: u32 = 4;

/// What something uses now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    /// Billionths of a core, averaged over the window.
    pub cpu_nanocores: u64,
    /// Memory that belongs to it alone, in bytes.
    pub memory_bytes: u64,
    /// All cpu time that it has used. A container's begins anew with each start of it; a pod's and a node's only grow
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

/// What the containers of a pod use, by container name.
pub type PodUsage = BTreeMap<String, ResourceUsage>;

/// What there is of a volume's file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeUsage {
    /// How much it holds.
    pub capacity_bytes: u64,
    /// How much more may be written by those who are not root.
    pub available_bytes: u64,
    /// How much lies in it.
    pub used_bytes: u64,
    /// How many files it holds; none where it counts none.
    pub inodes: u64,
    /// How many more.
    pub inodes_free: u64,
}

/// One measurement of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeUsage {
    /// When it was taken.
    pub at: Timestamp,
    /// The same moment as the node's own clock read, which may be off: what is said of it.
    pub told_at: Timestamp,
    /// The time over which cpu was averaged.
    pub window: Duration,
    /// All pods together.
    pub total: ResourceUsage,
    /// By the uid of the pod.
    pub pods: BTreeMap<String, PodUsage>,
    /// All cpu time that each of these pods has used, whichever of its containers.
    pub pod_cpu_times: BTreeMap<String, Duration>,
    /// By the uid of the pod and the name of the volume: those of claims, where their file systems answer.
    pub volumes: BTreeMap<String, BTreeMap<String, VolumeUsage>>,
}

impl Api {
    /// Replaces what is known of a node; none forgets it.
    pub fn set_node_usage(&self, node: &str, usage: Option<NodeUsage>) {
        let mut all = self.inner.usage.write();
        match usage {
            Some(usage) => all.insert(node.to_string(), Arc::new(usage)),
            None => all.remove(node),
        };
    }

    /// The newest measurement of a node; none when there is none or it is too old.
    pub fn node_usage(&self, node: &str) -> Option<Arc<NodeUsage>> {
        let usage = self.inner.usage.read().get(node).cloned()?;
        let age = since(self.server_clock().now(), usage.at);
        (age <= usage.window.saturating_mul(STALE_WINDOWS)).then_some(usage)
    }

    /// The newest measurement of a pod's node, and in it what the pod's containers use.
    pub fn pod_usage(&self, pod: &Shared<Pod>) -> Option<(Arc<NodeUsage>, PodUsage)> {
        let node = self.node_usage(pod.spec.as_ref()?.node_name.as_deref()?)?;
        let containers = node.pods.get(super::node_access::runtime_uid(pod))?.clone();
        Some((node, containers))
    }
}
