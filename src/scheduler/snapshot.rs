//! The nodes and what is placed on them: kept up to date change by change, read by every cycle.
//!
//! Architecture Invariant: the cost of a change is the size of the change. A cycle copies nothing; the
//! scheduler's one task owns this and lends it out.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use super::node_info::{NodeDifference, NodeInfo, NodeName};
use super::pod_info::PodInfo;
use crate::object::{Shared, Uid};

/// A pod that holds room on a node.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// Its node, which need not exist (any more, or yet).
    pub node: NodeName,
    /// Decided here, and not seen bound yet.
    pub assumed: bool,
}

/// What became of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeChange {
    /// It is new.
    Added,
    /// It differs in this.
    Updated(NodeDifference),
}

/// All nodes with the totals of their pods.
#[derive(Debug, Default)]
pub struct Snapshot {
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
}

impl Snapshot {
    /// No nodes, no pods.
    pub fn new() -> Self {
        Self::default()
    }

    /// The nodes, by position.
    pub fn nodes(&self) -> &[NodeInfo] {
        &self.nodes
    }

    /// The positions of all nodes in the order they are searched: zones take turns, so that the first
    /// nodes that fit are in all of them.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// The names of all nodes, by position.
    pub fn names(&self) -> &Arc<[NodeName]> {
        &self.names
    }

    /// A node.
    pub fn node(&self, name: &str) -> Option<&NodeInfo> {
        self.position(name).map(|position| &self.nodes[position])
    }

    /// A node's position.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// What is known of a pod's place.
    pub fn placed(&self, uid: &str) -> Option<&Placed> {
        self.placed.get(uid)
    }

    /// How many pods hold room somewhere.
    pub fn placed_count(&self) -> usize {
        self.placed.len()
    }

    /// Takes over a node's new version.
    pub fn set_node(&mut self, node: Shared<Node>) -> NodeChange {
        if let Some(position) = self.position(node.name()) {
            let info = &mut self.nodes[position];
            let zone = info.zone().to_string();
            let difference = info.set_node(node);
            self.order_is_stale |= info.zone() != zone;
            return NodeChange::Updated(difference);
        }
        let mut info = NodeInfo::new(node);
        for uid in self.homeless.remove(&info.name).into_iter().flatten() {
            if let Some(placed) = self.placed.get(&uid) {
                info.add(placed.pod.clone());
            }
        }
        self.index.insert(info.name.clone(), self.nodes.len());
        self.nodes.push(info);
        self.order_is_stale = true;
        NodeChange::Added
    }

    /// A node is gone; its pods stay known until they go as well.
    pub fn remove_node(&mut self, name: &str) -> Option<NodeInfo> {
        let position = self.index.remove(name)?;
        let info = self.nodes.swap_remove(position);
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
    pub fn place(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.put(pod, node, false);
    }

    /// A pod is to go to a node; its room is taken from now on.
    pub fn assume(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.put(pod, node, true);
    }

    /// A pod that was assumed has been seen bound.
    pub fn confirm(&mut self, uid: &str) {
        if let Some(placed) = self.placed.get_mut(uid) {
            placed.assumed = false;
        }
    }

    fn put(&mut self, pod: Arc<PodInfo>, node: &str, assumed: bool) {
        let uid = pod.uid().to_string();
        self.remove_pod(&uid);
        let name = if let Some(position) = self.position(node) {
            self.nodes[position].add(pod.clone());
            self.nodes[position].name.clone()
        } else {
            let name: NodeName = node.into();
            self.homeless.entry(name.clone()).or_default().insert(uid.clone());
            name
        };
        self.placed.insert(uid, Placed { pod, node: name, assumed });
    }

    /// A pod holds no room any more.
    pub fn remove_pod(&mut self, uid: &Uid) -> Option<Placed> {
        let placed = self.placed.remove(uid)?;
        if let Some(position) = self.position(&placed.node) {
            self.nodes[position].remove(uid);
        } else if let Some(pods) = self.homeless.get_mut(&placed.node) {
            pods.remove(uid);
            if pods.is_empty() {
                self.homeless.remove(&placed.node);
            }
        }
        Some(placed)
    }

    /// Brings the search order up to date; to be called before a cycle, free when no node came or went.
    pub fn refresh(&mut self) {
        if !std::mem::take(&mut self.order_is_stale) {
            return;
        }
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
