//! One pod on every node that should have one, and none on others.
//!
//! Decides creations and deletions independently of the template; [`super::rolling`] replaces pods of an old template.

use std::time::Duration;

use super::node_view::{DaemonPod, NodePods, NodeView, State};
use super::placement::NodeFit;

/// The next actions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Actions {
    /// Nodes that get a pod.
    pub(super) create: Vec<String>,
    /// Pods to delete.
    pub(super) delete: Vec<String>,
    /// Ended pods among them.
    pub(super) ended: Vec<FinishedPod>,
    /// The time until the next sync for failed pods that are not deleted yet.
    pub(super) requeue_after: Option<Duration>,
}

/// A pod that ended although its node should run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FinishedPod {
    pub(super) pod: String,
    pub(super) node: String,
    pub(super) failed: bool,
}

/// Decides the next actions. `wait` returns the time for which a node's failed pods are left alone, so that a kubelet
/// that refuses a pod and this controller do not loop at full speed.
pub(super) fn next_step(node_view: &NodeView, surges: bool, wait: impl Fn(&str) -> Duration) -> Actions {
    let mut actions = Actions::default();
    for node_pods in &node_view.nodes {
        match node_pods.fit {
            NodeFit::Run if node_pods.daemons.is_empty() => actions.create.push(node_pods.node.clone()),
            NodeFit::Run | NodeFit::Keep => {
                let alive = remove_ended(&mut actions, node_pods, wait(&node_pods.node));
                if surges {
                    surging(&mut actions, node_pods, &alive);
                } else {
                    actions.delete.extend(alive.iter().skip(1).map(|d| d.name.clone()));
                }
            }
            NodeFit::Never => {
                let there = node_pods.daemons.iter().filter(|d| d.state != State::Going);
                actions.delete.extend(there.map(|d| d.name.clone()));
            }
        }
    }
    actions.delete.extend(node_view.stranded.iter().cloned());
    actions
}

/// Deletes the node's ended pods; returns those that live. A deleted pod is replaced once it is gone.
fn remove_ended<'p>(actions: &mut Actions, node_pods: &'p NodePods, wait: Duration) -> Vec<&'p DaemonPod> {
    let mut alive = Vec::new();
    let mut one_failed = false;
    for daemon in &node_pods.daemons {
        let failed = daemon.state == State::Failed;
        match daemon.state {
            State::Going => {}
            State::Alive => alive.push(daemon),
            // One at a time: the next one follows once the cache shows this deletion.
            State::Failed if one_failed => {}
            State::Failed if !wait.is_zero() => {
                actions.requeue_after = Some(actions.requeue_after.map_or(wait, |sooner| sooner.min(wait)));
            }
            State::Failed | State::Succeeded => {
                one_failed |= failed;
                actions.delete.push(daemon.name.clone());
                actions.ended.push(FinishedPod {
                    pod: daemon.name.clone(),
                    node: node_pods.node.clone(),
                    failed,
                });
            }
        }
    }
    alive
}

/// Keeps two pods if the old one serves and the new one does not yet; deletes all others.
fn surging(actions: &mut Actions, node_pods: &NodePods, alive: &[&DaemonPod]) {
    match alive {
        [] if node_pods.fit == NodeFit::Run => actions.create.push(node_pods.node.clone()),
        [] | [_] => {}
        _ => {
            let new = alive.iter().find(|d| d.updated);
            // Keeps a ready pod, or else the oldest: the oldest pod usually serves, but pods may have the same age.
            let old = alive.iter().filter(|d| !d.updated).min_by_key(|d| !d.ready);
            let is_retained =
                |d: &DaemonPod| [new, old].into_iter().flatten().any(|retained| retained.name == d.name);
            actions.delete.extend(alive.iter().filter(|d| !is_retained(d)).map(|d| d.name.clone()));
            if let (Some(new), Some(old)) = (new, old)
                && (!old.ready || new.is_available())
            {
                actions.delete.push(old.name.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon_set::node_view::tests::node_view;

    fn text(nodes: &str, surges: bool, waiting: u64) -> String {
        let actions = next_step(&node_view(nodes), surges, |_| Duration::from_secs(waiting));
        let again = actions.requeue_after.map(|d| format!(" again {}", d.as_secs())).unwrap_or_default();
        format!("+[{}] -[{}]{again}", actions.create.join(" "), actions.delete.join(" "))
    }

    #[test]
    fn every_node_gets_one_pod_and_no_other_node_has_any_ds_1() {
        for (rule, nodes, surges, waiting, expected) in [
            ("new nodes", "Run, Run, Keep, Never", false, 0, "+[n1 n2] -[]"),
            ("as it should be", "Run a, Run b:o, Keep c, Never", false, 0, "+[] -[]"),
            ("no longer for it", "Never a b:p c:g", false, 0, "+[] -[a b]"),
            ("one too many", "Run b:p a c", false, 0, "+[] -[c b]"),
            ("one too many where it may only stay", "Keep a b", false, 0, "+[] -[b]"),
            ("it goes: the next comes after it", "Run a:g", false, 0, "+[] -[]"),
            ("it failed", "Run a:f", false, 0, "+[] -[a]"),
            ("it failed again just now", "Run a:f, Run", false, 4, "+[n2] -[] again 4"),
            ("one failure at a time", "Run a:f b:f", false, 0, "+[] -[a]"),
            ("it ended well", "Run a:s, Never b:s", false, 4, "+[] -[a b]"),
            ("failed where it should not be", "Never a:f", false, 4, "+[] -[a]"),
            ("surge: old and new", "Run a:o b:u", true, 0, "+[] -[]"),
            ("surge: the new one serves", "Run a:o b", true, 0, "+[] -[a]"),
            ("surge: the new one has not served long enough", "Run a:o b:w", true, 0, "+[] -[]"),
            ("surge: neither serves", "Run a:ou b:u", true, 0, "+[] -[a]"),
            ("surge: several of each", "Run a:o b:o c:u d:u", true, 0, "+[] -[b d]"),
            ("surge: two old ones, one serves", "Run a:ou b:o c:u", true, 0, "+[] -[a]"),
            ("surge: the last one goes", "Run a:g, Keep b:g", true, 0, "+[n1] -[]"),
        ] {
            assert_eq!(text(nodes, surges, waiting), expected, "{rule}");
        }
    }

    #[test]
    fn pods_made_for_a_node_that_went_are_removed_ds_1() {
        let node_view = NodeView { stranded: vec!["lost".into()], ..node_view("Run a") };
        assert_eq!(next_step(&node_view, false, |_| Duration::ZERO).delete, ["lost"]);
    }
}
