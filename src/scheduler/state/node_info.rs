//! A node in the scheduler's form: its capacity, and the running totals of its pods.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerImage, Node, Taint};

use crate::state::pod_info::PodInfo;
use crate::state::requests::Resources;
use crate::state::topology::NodeDomains;
use object::SharedObject;
use object::host_ports::HostPort;
use object::quantity::{Amount, ResourceList};

/// A node's name, shared.
pub(crate) type NodeName = Arc<str>;

/// A node with the totals of its pods.
#[derive(Clone, Debug)]
pub(crate) struct NodeInfo {
    /// `metadata.name`.
    pub(crate) name: NodeName,
    /// The node's version this was read from.
    pub(crate) node: SharedObject<Node>,
    /// The resources available to pods.
    pub(crate) allocatable: Resources,
    /// The pod limit.
    pub(crate) allowed_pods: i64,
    /// The resources requested by its pods.
    pub(crate) requested: Resources,
    /// The resources of its pods for scoring, with assumed values for missing requests.
    pub(crate) assumed: Resources,
    /// The ports its pods listen on.
    pub(crate) ports: Vec<HostPort>,
    /// Its pods, assumed ones included, in no order.
    pub(crate) pods: Vec<Arc<PodInfo>>,
    /// `spec.taints`.
    pub(crate) taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub(crate) unschedulable: bool,
    /// The domains it is in, for the topologies in use.
    pub(crate) domains: NodeDomains,
}

/// The changed parts of a node that decisions can depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeDifference {
    /// Its allocatable resources.
    pub(crate) allocatable: bool,
    pub(crate) labels: bool,
    /// Its taints, or its cordon.
    pub(crate) taints: bool,
    /// Its images: no filter reads these.
    pub(crate) images: bool,
}

impl NodeDifference {
    /// Returns true if a change can let a pod fit.
    pub(crate) fn any(self) -> bool {
        self.allocatable || self.labels || self.taints
    }
}

impl NodeInfo {
    /// Creates a node without pods.
    pub(crate) fn new(node: SharedObject<Node>) -> Self {
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
            domains: NodeDomains::default(),
        };
        info.set_node(node);
        info
    }

    /// Returns the parts that a new version of the node changes.
    pub(crate) fn difference(&self, node: &Node) -> NodeDifference {
        let (spec, before) = (node.spec.as_ref(), self.node.spec.as_ref());
        let taints = spec.and_then(|s| s.taints.as_deref()).unwrap_or_default();
        NodeDifference {
            allocatable: resources_of(node) != resources_of(&self.node),
            labels: node.metadata.labels != self.node.metadata.labels,
            taints: taints != self.taints
                || spec.and_then(|s| s.unschedulable) != before.and_then(|s| s.unschedulable),
            images: images_of(node) != images_of(&self.node),
        }
    }

    /// Sets a new version of the node.
    pub(crate) fn set_node(&mut self, node: SharedObject<Node>) {
        let spec = node.spec.as_ref();
        let list = resources_of(&node);
        self.allocatable = Resources::allocatable(list);
        self.allowed_pods = Amount::in_list(list, "pods").units();
        self.taints = spec.and_then(|s| s.taints.clone()).unwrap_or_default();
        self.unschedulable = spec.and_then(|s| s.unschedulable).unwrap_or(false);
        self.node = node;
    }

    /// Returns a label's value.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.node.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    pub(crate) fn add(&mut self, pod: Arc<PodInfo>) {
        self.requested.add(&pod.requests);
        self.assumed.add(&pod.assumed);
        self.ports.extend_from_slice(&pod.ports);
        self.pods.push(pod);
    }

    pub(crate) fn update_pod_status(&mut self, pod: &Arc<PodInfo>) {
        let Some(known) = self.pods.iter_mut().find(|known| known.uid() == pod.uid()) else { return };
        let before = std::mem::replace(known, pod.clone());
        if (&before.requests, &before.assumed) != (&pod.requests, &pod.assumed) {
            self.requested.subtract(&before.requests);
            self.requested.add(&pod.requests);
            self.assumed.subtract(&before.assumed);
            self.assumed.add(&pod.assumed);
        }
    }

    pub(crate) fn remove(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        let position = self.pods.iter().position(|pod| pod.uid() == uid)?;
        let pod = self.pods.swap_remove(position);
        self.requested.subtract(&pod.requests);
        self.assumed.subtract(&pod.assumed);
        for port in &pod.ports {
            if let Some(taken) = self.ports.iter().position(|p| p == port) {
                self.ports.swap_remove(taken);
            }
        }
        Some(pod)
    }

    /// Returns its zone; empty without a label.
    pub(crate) fn zone(&self) -> &str {
        self.label(object::well_known::label::ZONE).unwrap_or_default()
    }
}

fn resources_of(node: &Node) -> Option<&ResourceList> {
    node.status.as_ref().and_then(|s| s.allocatable.as_ref().or(s.capacity.as_ref()))
}

/// Returns the images in a node's status.
pub(crate) fn images_of(node: &Node) -> &[ContainerImage] {
    node.status.as_ref().and_then(|s| s.images.as_deref()).unwrap_or_default()
}
