//! The nodes and the pods placed on them: updated change by change, read by every cycle.
//!
//! Architecture Invariant: the cost of a change is proportional to the change. A cycle copies nothing; the scheduler's
//! one task owns the snapshot and lends it to the cycle.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use crate::state::budgets::Budgets;
use crate::state::domain_counts::Counts;
use crate::state::images::Images;
use crate::state::node_info::{NodeDifference, NodeInfo, NodeName};
use crate::state::nominator::Nominator;
use crate::state::pod_info::PodInfo;
use crate::state::storage::Storage;
use object::selector::Labels;
use object::{SharedObject, Uid};

/// A pod that uses resources of a node.
#[derive(Clone, Debug)]
pub(crate) struct PlacedPod {
    pub(crate) pod: Arc<PodInfo>,
    /// Its node, which need not exist (any more, or yet).
    pub(crate) node: NodeName,
    /// The scheduler has decided the placement, and the caches do not show the binding yet.
    pub(crate) assumed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeChange {
    /// It was added.
    Added,
    /// It changed in these parts.
    Updated(NodeDifference),
}

/// All nodes with the totals of their pods.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    nodes: Vec<NodeInfo>,
    index: HashMap<NodeName, usize>,
    placed: HashMap<Uid, PlacedPod>,
    pods_on_missing_nodes: HashMap<NodeName, HashSet<Uid>>,
    /// Positions in `nodes`, zone by zone in turn; rebuilt after nodes are added, removed or change zone.
    order: Vec<usize>,
    /// The nodes' names by position, shared with verdict tables.
    names: Arc<[NodeName]>,
    order_is_stale: bool,
    counts: Counts,
    nominated: Nominator,
    budgets: Budgets,
    images: Images,
    storage: Storage,
}

impl Snapshot {
    /// Creates an empty snapshot.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Returns the nodes, by position.
    pub(crate) fn nodes(&self) -> &[NodeInfo] {
        &self.nodes
    }

    /// Returns the positions of all nodes in search order: zones take turns, so that the first feasible nodes are
    /// spread over all of them.
    pub(crate) fn order(&self) -> &[usize] {
        &self.order
    }

    /// Returns the names of all nodes, by position.
    pub(crate) fn names(&self) -> &Arc<[NodeName]> {
        &self.names
    }

    pub(crate) fn node(&self, name: &str) -> Option<&NodeInfo> {
        self.position(name).map(|position| &self.nodes[position])
    }

    /// Returns a node's position.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// Returns a pod's placement.
    pub(crate) fn placed(&self, uid: &str) -> Option<&PlacedPod> {
        self.placed.get(uid)
    }

    /// Returns the number of placed pods.
    #[cfg(test)]
    pub(crate) fn placed_count(&self) -> usize {
        self.placed.len()
    }

    /// Returns the counts by domain.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the nominated pods.
    pub(crate) fn nominated(&self) -> &Nominator {
        &self.nominated
    }

    /// Sets or clears the nomination of a waiting pod.
    pub(crate) fn nominate(&mut self, pod: &Arc<PodInfo>, node: Option<&str>) {
        self.nominated.set(pod, node);
    }

    /// Drops the nomination of a pod that no longer waits.
    pub(crate) fn drop_nomination(&mut self, uid: &str) {
        self.nominated.remove(uid);
    }

    /// Returns the disruption budgets.
    pub(crate) fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// Returns the disruption budgets, for changes.
    pub(crate) fn budgets_mut(&mut self) -> &mut Budgets {
        &mut self.budgets
    }

    /// Returns claims, volumes and classes.
    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Returns claims, volumes and classes, for changes.
    pub(crate) fn storage_mut(&mut self) -> &mut Storage {
        &mut self.storage
    }

    /// Returns the images on nodes.
    pub(crate) fn images(&self) -> &Images {
        &self.images
    }

    /// Sets a namespace's labels, or removes it; returns true if terms may select it differently.
    pub(crate) fn set_namespace(&mut self, name: &str, labels: Option<Labels>) -> bool {
        self.counts.set_namespace(name, labels)
    }

    /// Prepares a cycle for this pod: makes sure that the counts it needs exist.
    pub(crate) fn prepare(&mut self, pod: &PodInfo) {
        self.refresh();
        self.counts.prepare(pod, &mut self.nodes);
    }

    /// Sets a new version of a node.
    pub(crate) fn set_node(&mut self, node: SharedObject<Node>) -> NodeChange {
        if let Some(position) = self.position(node.name()) {
            let difference = self.nodes[position].difference(&node);
            if difference.images {
                self.images.forget(&self.nodes[position].node);
                self.images.update_node(&node);
            }
            if !difference.labels && !difference.taints {
                self.nodes[position].set_node(node);
                return NodeChange::Updated(difference);
            }
            let zone = self.nodes[position].zone().to_string();
            self.counts.node_removed(&self.nodes[position]);
            self.nodes[position].set_node(node);
            self.counts.node_added(position, &mut self.nodes);
            self.order_is_stale |= self.nodes[position].zone() != zone;
            return NodeChange::Updated(difference);
        }
        self.images.update_node(&node);
        let mut info = NodeInfo::new(node);
        for uid in self.pods_on_missing_nodes.remove(&info.name).into_iter().flatten() {
            if let Some(placed) = self.placed.get(&uid) {
                info.add(placed.pod.clone());
            }
        }
        let position = self.nodes.len();
        self.index.insert(info.name.clone(), position);
        self.nodes.push(info);
        self.counts.node_added(position, &mut self.nodes);
        self.order_is_stale = true;
        NodeChange::Added
    }

    /// Removes a node; its pods stay known until they are removed too.
    pub(crate) fn remove_node(&mut self, name: &str) -> Option<NodeInfo> {
        let position = self.index.remove(name)?;
        let info = self.nodes.swap_remove(position);
        self.counts.node_removed(&info);
        self.images.forget(&info.node);
        if let Some(moved) = self.nodes.get(position) {
            self.index.insert(moved.name.clone(), position);
        }
        if !info.pods.is_empty() {
            let uids = info.pods.iter().map(|pod| pod.uid().to_string()).collect();
            self.pods_on_missing_nodes.insert(info.name.clone(), uids);
        }
        self.order_is_stale = true;
        Some(info)
    }

    /// Places a pod on a node, no matter which scheduler bound it.
    pub(crate) fn add_pod(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.put(pod, node, false);
    }

    /// Assumes a pod on a node: its resources count from now on.
    pub(crate) fn assume(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.put(pod, node, true);
    }

    /// Records that the caches show the binding of an assumed pod.
    pub(crate) fn confirm(&mut self, uid: &str) {
        if let Some(placed) = self.placed.get_mut(uid) {
            placed.assumed = false;
        }
    }

    /// Updates the [status](crate::state::pod_info::PodDifference::Status) of a placed pod; domain counts do not
    /// depend on it.
    pub(crate) fn update_pod_status(&mut self, pod: &Arc<PodInfo>) {
        let Some(placed) = self.placed.get_mut(pod.uid()) else { return };
        placed.pod = pod.clone();
        if let Some(position) = self.index.get(&placed.node) {
            self.nodes[*position].update_pod_status(pod);
        }
    }

    fn put(&mut self, pod: Arc<PodInfo>, node: &str, assumed: bool) {
        let uid = pod.uid().to_string();
        self.remove_pod(&uid);
        self.nominated.set(&pod, None);
        let name = if let Some(position) = self.position(node) {
            self.nodes[position].add(pod.clone());
            self.counts.pod_added(&pod, position, &mut self.nodes);
            self.nodes[position].name.clone()
        } else {
            let name: NodeName = node.into();
            self.pods_on_missing_nodes.entry(name.clone()).or_default().insert(uid.clone());
            name
        };
        self.storage.pod_placed(&pod);
        self.placed.insert(uid, PlacedPod { pod, node: name, assumed });
    }

    /// Removes a pod and its resources.
    pub(crate) fn remove_pod(&mut self, uid: &Uid) -> Option<PlacedPod> {
        let placed = self.placed.remove(uid)?;
        self.storage.remove_pod(&placed.pod);
        if let Some(position) = self.position(&placed.node) {
            self.nodes[position].remove(uid);
            self.counts.pod_removed(&placed.pod, &self.nodes[position]);
        } else if let Some(pods) = self.pods_on_missing_nodes.get_mut(&placed.node) {
            pods.remove(uid);
            if pods.is_empty() {
                self.pods_on_missing_nodes.remove(&placed.node);
            }
        }
        Some(placed)
    }

    /// Updates the search order. Must be called before a cycle; costs nothing if no node was added or removed.
    pub(crate) fn refresh(&mut self) {
        if !std::mem::take(&mut self.order_is_stale) {
            return;
        }
        self.counts.compact(&mut self.nodes);
        let mut zones: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (position, info) in self.nodes.iter().enumerate() {
            zones.entry(info.zone()).or_default().push(position);
        }
        let longest = zones.values().map(Vec::len).max().unwrap_or(0);
        self.order =
            (0..longest).flat_map(|turn| zones.values().filter_map(move |z| z.get(turn).copied())).collect();
        self.names = self.nodes.iter().map(|info| info.name.clone()).collect();
    }
}
