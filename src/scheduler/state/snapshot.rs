//! The nodes and what is placed on them: kept up to date change by change, read by every cycle.
//!
//! Architecture Invariant: the cost of a change is the size of the change. A cycle copies nothing; the
//! scheduler's one task owns this and lends it out.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use crate::state::budgets::Budgets;
use crate::state::domain_counts::Counts;
use crate::state::images::Images;
use crate::state::node_info::{NodeDifference, NodeInfo, NodeName};
use crate::state::nominated::Nominated;
use crate::state::pod_info::PodInfo;
use crate::state::storage::Storage;
use object::selector::Labels;
use object::{Shared, Uid};

/// A pod that holds room on a node.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// The pod.
    pub(crate) pod: Arc<PodInfo>,
    /// Its node, which need not exist (any more, or yet).
    pub(crate) node: NodeName,
    /// Decided here, and not seen bound yet.
    pub(crate) assumed: bool,
}

/// What became of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeChange {
    /// It is new.
    Added,
    /// It differs in this.
    Updated(NodeDifference),
}

/// All nodes with the totals of their pods.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    nodes: Vec<NodeInfo>,
    index: HashMap<NodeName, usize>,
    placed: HashMap<Uid, Placed>,
    /// Pods on nodes that are not there.
    homeless: HashMap<NodeName, HashSet<Uid>>,
    /// Positions in `nodes`, zone by zone in turn; rebuilt when nodes come, go or move.
    order: Vec<usize>,
    /// The nodes' names by position, shared with verdict tables.
    names: Arc<[NodeName]>,
    order_is_stale: bool,
    counts: Counts,
    nominated: Nominated,
    budgets: Budgets,
    images: Images,
    storage: Storage,
}

impl Snapshot {
    /// No nodes, no pods.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The nodes, by position.
    pub(crate) fn nodes(&self) -> &[NodeInfo] {
        &self.nodes
    }

    /// The positions of all nodes in the order they are searched: zones take turns, so that the first
    /// nodes that fit are in all of them.
    pub(crate) fn order(&self) -> &[usize] {
        &self.order
    }

    /// The names of all nodes, by position.
    pub(crate) fn names(&self) -> &Arc<[NodeName]> {
        &self.names
    }

    /// A node.
    pub(crate) fn node(&self, name: &str) -> Option<&NodeInfo> {
        self.position(name).map(|position| &self.nodes[position])
    }

    /// A node's position.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// What is known of a pod's place.
    pub(crate) fn placed(&self, uid: &str) -> Option<&Placed> {
        self.placed.get(uid)
    }

    /// How many pods hold room somewhere.
    #[cfg(test)]
    pub(crate) fn placed_count(&self) -> usize {
        self.placed.len()
    }

    /// What is counted by domain.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The pods that others were evicted for, and that have not come yet.
    pub(crate) fn nominated(&self) -> &Nominated {
        &self.nominated
    }

    /// Notes for which node a waiting pod is nominated, or that it is for none.
    pub(crate) fn nominate(&mut self, pod: &Arc<PodInfo>, node: Option<&str>) {
        self.nominated.set(pod, node);
    }

    /// A pod waits no more: no node is kept for it.
    pub(crate) fn drop_nomination(&mut self, uid: &str) {
        self.nominated.remove(uid);
    }

    /// The budgets that say how many pods may be evicted.
    pub(crate) fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// The same, to be changed.
    pub(crate) fn budgets_mut(&mut self) -> &mut Budgets {
        &mut self.budgets
    }

    /// Claims, volumes and classes.
    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The same, to be changed.
    pub(crate) fn storage_mut(&mut self) -> &mut Storage {
        &mut self.storage
    }

    /// Which nodes have which images.
    pub(crate) fn images(&self) -> &Images {
        &self.images
    }

    /// A namespace is new or changed, or gone (no labels); true when terms may select it differently.
    pub(crate) fn set_namespace(&mut self, name: &str, labels: Option<Labels>) -> bool {
        self.counts.set_namespace(name, labels)
    }

    /// To be called before a cycle for this pod: sees to it that everything is counted that it asks for.
    pub(crate) fn prepare(&mut self, pod: &PodInfo) {
        self.refresh();
        self.counts.prepare(pod, &mut self.nodes);
    }

    /// Takes over a node's new version.
    pub(crate) fn set_node(&mut self, node: Shared<Node>) -> NodeChange {
        if let Some(position) = self.position(node.name()) {
            let difference = self.nodes[position].difference(&node);
            if difference.images {
                self.images.forget(&self.nodes[position].node);
                self.images.note(&node);
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
        self.images.note(&node);
        let mut info = NodeInfo::new(node);
        for uid in self.homeless.remove(&info.name).into_iter().flatten() {
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

    /// A node is gone; its pods stay known until they go as well.
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
            self.homeless.insert(info.name.clone(), uids);
        }
        self.order_is_stale = true;
        Some(info)
    }

    /// A pod is on a node, whoever put it there.
    pub(crate) fn place(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.put(pod, node, false);
    }

    /// A pod is to go to a node; its room is taken from now on.
    pub(crate) fn assume(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.put(pod, node, true);
    }

    /// A pod that was assumed has been seen bound.
    pub(crate) fn confirm(&mut self, uid: &str) {
        if let Some(placed) = self.placed.get_mut(uid) {
            placed.assumed = false;
        }
    }

    /// Takes over the new [status](crate::state::pod_info::PodDifference::Status) of a placed pod; domain counts do
    /// not depend on it.
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
            self.homeless.entry(name.clone()).or_default().insert(uid.clone());
            name
        };
        self.storage.pod_placed(&pod);
        self.placed.insert(uid, Placed { pod, node: name, assumed });
    }

    /// A pod holds no room any more.
    pub(crate) fn remove_pod(&mut self, uid: &Uid) -> Option<Placed> {
        let placed = self.placed.remove(uid)?;
        self.storage.pod_left(&placed.pod);
        if let Some(position) = self.position(&placed.node) {
            self.nodes[position].remove(uid);
            self.counts.pod_removed(&placed.pod, &self.nodes[position]);
        } else if let Some(pods) = self.homeless.get_mut(&placed.node) {
            pods.remove(uid);
            if pods.is_empty() {
                self.homeless.remove(&placed.node);
            }
        }
        Some(placed)
    }

    /// Brings the search order up to date; to be called before a cycle, free when no node came or went.
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
