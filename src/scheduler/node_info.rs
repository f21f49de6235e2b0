//! A node as the scheduler sees it: what it has, and the running totals of what its pods took.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Taint};

use super::pod_info::PodInfo;
use super::ports::HostPort;
use super::requests::Resources;
use crate::object::quantity::Amount;
use crate::object::{Shared, Uid};

/// A node's name, shared.
pub type NodeName = Arc<str>;

/// A node with the totals of its pods.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    /// `metadata.name`.
    pub name: NodeName,
    /// The node's version this was read from.
    pub node: Shared<Node>,
    /// What pods can have of it.
    pub allocatable: Resources,
    /// How many pods it takes.
    pub allowed_pods: i64,
    /// What its pods requested.
    pub requested: Resources,
    /// What its pods count as when nodes are scored.
    pub assumed: Resources,
    /// The ports its pods listen on.
    pub ports: Vec<HostPort>,
    /// Its pods, assumed ones included, in no order.
    pub pods: Vec<Arc<PodInfo>>,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// Counts up with every change of anything above.
    pub generation: u64,
}

/// What of a node changed that a decision can depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeDifference {
    /// What it has to give.
    pub allocatable: bool,
    /// Its labels.
    pub labels: bool,
    /// Its taints, or whether it is unschedulable.
    pub taints: bool,
}

impl NodeDifference {
    /// Whether anything did.
    pub fn any(self) -> bool {
        self.allocatable || self.labels || self.taints
    }
}

impl NodeInfo {
    /// A node without pods.
    pub fn new(node: Shared<Node>) -> Self {
        let mut info = Self {
            name: node.name().into(),
            node: node.clone(),
            allocatable: Resources::default(),
            allowed_pods: 0,
            requested: Resources::default(),
            assumed: Resources::default(),
            ports: Vec::new(),
            pods: Vec::new(),
            taints: Vec::new(),
            unschedulable: false,
            generation: 0,
        };
        info.set_node(node);
        info
    }

    /// Takes over a new version of the node.
    pub fn set_node(&mut self, node: Shared<Node>) -> NodeDifference {
        let spec = node.spec.as_ref();
        let list = node.status.as_ref().and_then(|s| s.allocatable.as_ref().or(s.capacity.as_ref()));
        let allocatable = Resources::allocatable(list);
        let allowed_pods = Amount::in_list(list, "pods").units();
        let taints = spec.and_then(|s| s.taints.clone()).unwrap_or_default();
        let unschedulable = spec.and_then(|s| s.unschedulable).unwrap_or(false);
        let difference = NodeDifference {
            allocatable: allocatable != self.allocatable || allowed_pods != self.allowed_pods,
            labels: node.metadata.labels != self.node.metadata.labels,
            taints: taints != self.taints || unschedulable != self.unschedulable,
        };
        self.allocatable = allocatable;
        self.allowed_pods = allowed_pods;
        self.taints = taints;
        self.unschedulable = unschedulable;
        self.node = node;
        self.generation += 1;
        difference
    }

    /// Counts a pod in.
    pub fn add(&mut self, pod: Arc<PodInfo>) {
        self.requested.add(&pod.requests);
        self.assumed.add(&pod.assumed);
        self.ports.extend_from_slice(&pod.ports);
        self.pods.push(pod);
        self.generation += 1;
    }

    /// Takes a pod out again.
    pub fn remove(&mut self, uid: &Uid) -> Option<Arc<PodInfo>> {
        let position = self.pods.iter().position(|pod| pod.uid() == uid)?;
        let pod = self.pods.swap_remove(position);
        self.requested.subtract(&pod.requests);
        self.assumed.subtract(&pod.assumed);
        for port in &pod.ports {
            if let Some(taken) = self.ports.iter().position(|p| p == port) {
                self.ports.swap_remove(taken);
            }
        }
        self.generation += 1;
        Some(pod)
    }

    /// The zone it is in; empty when it does not say.
    pub fn zone(&self) -> &str {
        let labels = self.node.metadata.labels.as_ref();
        labels.and_then(|l| l.get("topology.kubernetes.io/zone")).map_or("", String::as_str)
    }
}
