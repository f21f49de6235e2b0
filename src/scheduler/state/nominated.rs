//! Nominated pods: those that others were evicted for, with the node whose room is theirs when these are gone.

use std::collections::HashMap;
use std::sync::Arc;

use crate::state::node_info::NodeName;
use crate::state::pod_info::PodInfo;
use object::Uid;

/// Pods without a node yet, by the node kept for them.
#[derive(Debug, Default)]
pub(crate) struct Nominated {
    by_node: HashMap<NodeName, Vec<Arc<PodInfo>>>,
    node_of: HashMap<Uid, NodeName>,
}

impl Nominated {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.node_of.is_empty()
    }

    /// The pods a node is kept for.
    pub(crate) fn on(&self, node: &str) -> &[Arc<PodInfo>] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }

    /// The node kept for a pod.
    pub(crate) fn node_of(&self, uid: &str) -> Option<&NodeName> {
        self.node_of.get(uid)
    }

    /// The pods of the node whose room a pod must leave alone: its own priority or more.
    pub(crate) fn rivals<'n>(
        &'n self,
        pod: &'n PodInfo,
        node: &str,
    ) -> impl Iterator<Item = &'n Arc<PodInfo>> {
        let (priority, uid) = (pod.priority, pod.uid());
        self.on(node).iter().filter(move |other| other.priority >= priority && other.uid() != uid)
    }

    /// The node is kept for the pod; none: no node is.
    pub(crate) fn set(&mut self, pod: &Arc<PodInfo>, node: Option<&str>) {
        self.remove(pod.uid());
        if let Some(node) = node {
            let name: NodeName = node.into();
            self.node_of.insert(pod.uid().to_string(), name.clone());
            self.by_node.entry(name).or_default().push(pod.clone());
        }
    }

    /// No node is kept for the pod.
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
