//! Nominated pods: the scheduler evicts other pods from a node for them, and they get the freed resources.

use std::collections::HashMap;
use std::sync::Arc;

use crate::state::node_info::NodeName;
use crate::state::pod_info::PodInfo;
use object::Uid;

/// Pods without a node yet, by nominated node.
#[derive(Debug, Default)]
pub(crate) struct Nominator {
    by_node: HashMap<NodeName, Vec<Arc<PodInfo>>>,
    node_of: HashMap<Uid, NodeName>,
}

impl Nominator {
    /// Returns true if no pod is nominated.
    pub(crate) fn is_empty(&self) -> bool {
        self.node_of.is_empty()
    }

    /// Returns the pods nominated for a node.
    pub(crate) fn on(&self, node: &str) -> &[Arc<PodInfo>] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }

    /// Returns the node nominated for a pod.
    pub(crate) fn node_of(&self, uid: &str) -> Option<&NodeName> {
        self.node_of.get(uid)
    }

    /// Returns the pods nominated for the node with at least the pod's priority: the pod must not use their resources.
    pub(crate) fn rivals<'n>(
        &'n self,
        pod: &'n PodInfo,
        node: &str,
    ) -> impl Iterator<Item = &'n Arc<PodInfo>> {
        let (priority, uid) = (pod.priority, pod.uid());
        self.on(node).iter().filter(move |other| other.priority >= priority && other.uid() != uid)
    }

    /// Sets or clears the nomination of a pod.
    pub(crate) fn set(&mut self, pod: &Arc<PodInfo>, node: Option<&str>) {
        self.remove(pod.uid());
        if let Some(node) = node {
            let name: NodeName = node.into();
            self.node_of.insert(pod.uid().to_string(), name.clone());
            self.by_node.entry(name).or_default().push(pod.clone());
        }
    }

    /// Removes the nomination of a pod.
    pub(crate) fn remove(&mut self, uid: &str) {
        if self.node_of.is_empty() {
            return;
        }
        let Some(node) = self.node_of.remove(uid) else { return };
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.retain(|pod| pod.uid() != uid);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }
}
