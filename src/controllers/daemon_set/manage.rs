//! One pod on every node that should have one, and none elsewhere.
//!
//! Decides what is to be made and removed whatever the template; which pods a new template replaces, and when,
//! is [`super::rolling`]'s.

use std::time::Duration;

use super::node_view::{DaemonPod, NodePods, NodeView, State};
use super::placement::Fit;

/// What is to be done next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Actions {
    /// Nodes that get a pod.
    pub(super) create: Vec<String>,
    /// Pods that are asked to go.
    pub(super) delete: Vec<String>,
    /// Pods among them that had ended.
    pub(super) ended: Vec<Ended>,
    /// When to sync again for failed pods that are not yet removed.
    pub(super) look_again: Option<Duration>,
}

/// A pod that ended though its node should run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) pod: String,
    pub(super) node: String,
    pub(super) failed: bool,
}

/// The next step; `wait` says how long a node's failed pods are left alone yet, so that a kubelet that
/// refuses a pod and the controller that makes it do not chase one another.
pub(super) fn next_step(node_view: &NodeView, surges: bool, wait: impl Fn(&str) -> Duration) -> Actions {
    let mut actions = Actions::default();
    for node_pods in &node_view.nodes {
        match node_pods.fit {
            Fit::Run if node_pods.daemons.is_empty() => actions.create.push(node_pods.node.clone()),
            Fit::Run | Fit::Keep => {
                let alive = remove_ended(&mut actions, node_pods, wait(&node_pods.node));
                if surges {
                    surging(&mut actions, node_pods, &alive);
                } else {
                    actions.delete.extend(alive.iter().skip(1).map(|d| d.name.clone()));
                }
            }
            Fit::Never => {
                let there = node_pods.daemons.iter().filter(|d| d.state != State::Going);
                actions.delete.extend(there.map(|d| d.name.clone()));
            }
        }
    }
    actions.delete.extend(node_view.stranded.iter().cloned());
    actions
}

/// Removes the place's pods that ended; returns those that live. A removed one is replaced when it is gone.
fn remove_ended<'p>(actions: &mut Actions, node_pods: &'p NodePods, wait: Duration) -> Vec<&'p DaemonPod> {
    let mut alive = Vec::new();
    let mut one_failed = false;
    for daemon in &node_pods.daemons {
        let failed = daemon.state == State::Failed;
        match daemon.state {
            State::Going => {}
            State::Alive => alive.push(daemon),
            // One at a time: the next one follows when this one is seen to go.
            State::Failed if one_failed => {}
            State::Failed if !wait.is_zero() => {
                actions.look_again = Some(actions.look_again.map_or(wait, |sooner| sooner.min(wait)));
            }
            State::Failed | State::Succeeded => {
                one_failed |= failed;
                actions.delete.push(daemon.name.clone());
                actions.ended.push(Ended { pod: daemon.name.clone(), node: node_pods.node.clone(), failed });
            }
        }
    }
    alive
}

/// Two pods may live here if the old one serves and the new one does not yet; all others go.
fn surging(actions: &mut Actions, node_pods: &NodePods, alive: &[&DaemonPod]) {
    match alive {
        [] if node_pods.fit == Fit::Run => actions.create.push(node_pods.node.clone()),
        [] | [_] => {}
        _ => {
            let new = alive.iter().find(|d| d.updated);
            // The oldest is the one that serves, as a rule; where two are of one age, it is this one.
            let old = alive.iter().filter(|d| !d.updated).min_by_key(|d| !d.ready);
            let kept = |d: &DaemonPod| [new, old].into_iter().flatten().any(|kept| kept.name == d.name);
            actions.delete.extend(alive.iter().filter(|d| !kept(d)).map(|d| d.name.clone()));
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
        let again = actions.look_again.map(|d| format!(" again {}", d.as_secs())).unwrap_or_default();
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
