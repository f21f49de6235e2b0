//! The filters of one cycle: every plugin's check of the pod, run on one node after another.
//!
//! A node is also checked with the pods that are nominated for it added. Preemption checks it with some of its pods
//! removed.

use std::sync::Arc;

use super::{NodeCheck, Plugin, PluginId, PreFilter};
use crate::reason::Refusal;
use crate::state::node_info::{NodeInfo, NodeName};
use crate::state::pod_info::PodInfo;
use crate::state::snapshot::Snapshot;

/// The filters that apply to a pod.
pub(crate) struct Filters<'a> {
    pod: &'a PodInfo,
    snapshot: &'a Snapshot,
    checks: Vec<(PluginId, Box<dyn NodeCheck + 'a>)>,
    only: Option<(PluginId, Vec<usize>)>,
    rejected: Option<(PluginId, Refusal)>,
}

impl<'a> Filters<'a> {
    /// Runs PreFilter of these plugins for the pod, in order.
    pub(crate) fn new(
        pod: &'a PodInfo,
        snapshot: &'a Snapshot,
        plugins: impl Iterator<Item = &'a dyn Plugin>,
    ) -> Self {
        let checks = Vec::with_capacity(8);
        let mut filters = Self { pod, snapshot, checks, only: None, rejected: None };
        for plugin in plugins {
            let id = plugin.id();
            match plugin.pre_filter(pod, snapshot) {
                PreFilter::Skip => {}
                PreFilter::Check(check) => filters.checks.push((id, check)),
                PreFilter::CheckOnly(names, check) => {
                    filters.checks.push((id, check));
                    filters.narrow(id, &names);
                }
                PreFilter::Reject(refusal) => {
                    filters.rejected = Some((id, refusal));
                    break;
                }
            }
        }
        filters
    }

    fn narrow(&mut self, id: PluginId, names: &[NodeName]) {
        let mut positions: Vec<usize> =
            names.iter().filter_map(|name| self.snapshot.position(name)).collect();
        if let Some((_, others)) = &self.only {
            positions.retain(|position| others.contains(position));
        }
        self.only = Some((id, positions));
    }

    /// Returns the refusal of the pod as a whole.
    pub(crate) fn rejected(&self) -> Option<&(PluginId, Refusal)> {
        self.rejected.as_ref()
    }

    /// Returns the only nodes to evaluate, by position, and the plugin that restricted them.
    pub(crate) fn only(&self) -> Option<&(PluginId, Vec<usize>)> {
        self.only.as_ref()
    }

    /// Returns the plugins with a check, in order.
    pub(crate) fn plugins(&self) -> impl Iterator<Item = PluginId> {
        self.checks.iter().map(|(id, _)| *id)
    }

    /// Returns true if the node at this position takes the pod, also beside the pods nominated for it.
    pub(crate) fn accept(&mut self, position: usize) -> bool {
        let node = &self.snapshot.nodes()[position];
        self.accept_on(node)
    }

    /// Does the same as [`Self::accept`] for a node that differs from the snapshot's.
    pub(crate) fn accept_on(&mut self, node: &NodeInfo) -> bool {
        self.passes(node) && self.beside_rivals(node, Self::passes).unwrap_or(true)
    }

    /// Returns the result of each check for a node; a check that fails only with the node's nominated pods added
    /// refuses too.
    pub(crate) fn refusals(&mut self, node: &NodeInfo) -> Vec<Option<Refusal>> {
        let mut alone = self.run_filters(node);
        if let Some(beside) = self.beside_rivals(node, Self::run_filters) {
            for (refusal, beside) in alone.iter_mut().zip(beside) {
                *refusal = refusal.take().or(beside);
            }
        }
        alone
    }

    fn run_filters(&self, node: &NodeInfo) -> Vec<Option<Refusal>> {
        self.checks.iter().map(|(_, check)| check.check(node).err()).collect()
    }

    fn passes(&self, node: &NodeInfo) -> bool {
        self.checks.iter().all(|(_, check)| check.check(node).is_ok())
    }

    /// Runs the checks with the node's nominated pods added; `None` if there are none.
    fn beside_rivals<T>(&mut self, node: &NodeInfo, evaluate: impl Fn(&Self, &NodeInfo) -> T) -> Option<T> {
        if self.snapshot.nominated().is_empty() {
            return None;
        }
        let rivals: Vec<Arc<PodInfo>> =
            self.snapshot.nominated().rivals(self.pod, &node.name).cloned().collect();
        if rivals.is_empty() {
            return None;
        }
        let mut with = node.clone();
        for rival in &rivals {
            self.add(rival, &mut with);
        }
        let answer = evaluate(self, &with);
        for rival in &rivals {
            self.remove(rival, &mut with);
        }
        Some(answer)
    }

    /// Adds a pod to the node for the checks.
    pub(crate) fn add(&mut self, pod: &Arc<PodInfo>, node: &mut NodeInfo) {
        node.add(pod.clone());
        for (_, check) in &mut self.checks {
            check.added(pod, node);
        }
    }

    /// Removes a pod from the node for the checks.
    pub(crate) fn remove(&mut self, pod: &Arc<PodInfo>, node: &mut NodeInfo) {
        node.remove(pod.uid());
        for (_, check) in &mut self.checks {
            check.removed(pod, node);
        }
    }
}
