//! Rolls a new template out to every node without exceeding the limits on nodes without an available pod, or with two
//! pods.
//!
//! Relies on [`super::manage`], which creates missing pods and deletes surplus ones.

use super::manage::Actions;
use super::node_view::{DaemonPod, NodePods, NodeView, State, Strategy};
use super::placement::NodeFit;

/// Returns the next step of an update.
pub(super) fn next_step(node_view: &NodeView, strategy: Strategy) -> Actions {
    match strategy {
        Strategy::OnDelete => Actions::default(),
        Strategy::RollingUpdate { max_surge: 0, max_unavailable } => replace(node_view, max_unavailable),
        Strategy::RollingUpdate { max_surge, .. } => surge(node_view, max_surge),
    }
}

/// The living pods of a node.
enum LivePods<'p> {
    Nothing,
    Old(&'p DaemonPod),
    New(&'p DaemonPod),
    Both {
        old: &'p DaemonPod,
        new: &'p DaemonPod,
    },
    /// More than one pod of a template: the surplus is deleted first.
    Surplus,
}

fn live_pods(node_pods: &NodePods) -> LivePods<'_> {
    // Ended pods count here; another rule replaces them.
    let mut living = node_pods.daemons.iter().filter(|d| d.state != State::Going);
    match (living.next(), living.next(), living.next()) {
        (None, ..) => LivePods::Nothing,
        (Some(new), None, _) if new.updated => LivePods::New(new),
        (Some(old), None, _) => LivePods::Old(old),
        (Some(a), Some(b), None) if a.updated != b.updated => {
            let (new, old) = if a.updated { (a, b) } else { (b, a) };
            LivePods::Both { old, new }
        }
        _ => LivePods::Surplus,
    }
}

fn remaining(bound: i32, used: usize) -> usize {
    usize::try_from(bound).unwrap_or(0).saturating_sub(used)
}

/// Deletes old pods, as many as may be unavailable; those that are unavailable already are deleted at once. Nodes
/// that only keep existing pods take part while they have one.
fn replace(node_view: &NodeView, max_unavailable: i32) -> Actions {
    let mut unavailable = 0;
    let (mut useless, mut candidates) = (Vec::new(), Vec::new());
    for node_pods in node_view.nodes.iter().filter(|p| p.fit == NodeFit::Run || !p.daemons.is_empty()) {
        match live_pods(node_pods) {
            LivePods::Nothing | LivePods::Both { .. } | LivePods::Surplus => unavailable += 1,
            LivePods::New(new) => unavailable += usize::from(!new.is_available()),
            LivePods::Old(old) if old.is_available() => candidates.push(old.name.clone()),
            LivePods::Old(old) => {
                unavailable += 1;
                useless.push(old.name.clone());
            }
        }
    }
    candidates.truncate(remaining(max_unavailable, unavailable));
    Actions { delete: [useless, candidates].concat(), ..Actions::default() }
}

/// Creates new pods beside old ones, as many as may surge, and deletes an old one once its successor is available. On
/// nodes that are no longer eligible, an available pod stays until there are enough on others.
fn surge(node_view: &NodeView, max_surge: i32) -> Actions {
    let (mut surging, mut available) = (0, 0);
    let (mut delete, mut misplaced) = (Vec::new(), Vec::new());
    let (mut create, mut candidates) = (Vec::new(), Vec::new());
    for node_pods in &node_view.nodes {
        match live_pods(node_pods) {
            LivePods::Nothing => {}
            LivePods::Surplus => surging += 1,
            LivePods::New(new) => available += usize::from(new.is_available()),
            LivePods::Old(old) if old.is_available() => {
                available += 1;
                match node_pods.fit {
                    NodeFit::Run => candidates.push(node_pods.node.clone()),
                    _ => misplaced.push(old.name.clone()),
                }
            }
            LivePods::Old(old) => match node_pods.fit {
                NodeFit::Run => create.push(node_pods.node.clone()),
                _ => delete.push(old.name.clone()),
            },
            LivePods::Both { old, new } => {
                available += usize::from(old.is_available());
                if new.is_available() {
                    delete.push(old.name.clone());
                } else {
                    surging += 1;
                }
            }
        }
    }
    let desired = usize::try_from(node_view.desired()).unwrap_or(0);
    delete.extend(misplaced.into_iter().take(available.saturating_sub(desired)));
    create.extend(candidates.into_iter().take(remaining(max_surge, surging)));
    Actions { create, delete, ..Actions::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon_set::node_view::tests::node_view;

    fn text(nodes: &str, max_surge: i32, max_unavailable: i32) -> String {
        let actions = next_step(&node_view(nodes), Strategy::RollingUpdate { max_surge, max_unavailable });
        format!("+[{}] -[{}]", actions.create.join(" "), actions.delete.join(" "))
    }

    #[test]
    fn old_pods_go_as_fast_as_new_ones_serve_ds_1() {
        for (rule, nodes, max_unavailable, expected) in [
            ("the first", "Run a:o, Run b:o, Run c:o", 1, "+[] -[a]"),
            ("two at once", "Run a:o, Run b:o, Run c:o", 2, "+[] -[a b]"),
            ("one goes", "Run a:og, Run b:o", 1, "+[] -[]"),
            ("one is missing", "Run, Run b:o", 1, "+[] -[]"),
            ("the new one does not serve yet", "Run a:u, Run b:o", 1, "+[] -[]"),
            ("nor long enough", "Run a:w, Run b:o", 1, "+[] -[]"),
            ("it serves", "Run a, Run b:o", 1, "+[] -[b]"),
            ("unavailable old ones cost nothing", "Run a:ou, Run b:op, Run c:o", 1, "+[] -[a b]"),
            ("and leave what room there is", "Run a:ou, Run b:o, Run c:o", 2, "+[] -[a b]"),
            ("surplus first", "Run a:o b:o, Run c:o", 1, "+[] -[]"),
            ("a node that may only keep its pod", "Keep a:o, Run b:o", 1, "+[] -[a]"),
            ("such a node without a pod does not count", "Keep, Never, Run b:o", 1, "+[] -[b]"),
            ("all done", "Run a, Run b", 1, "+[] -[]"),
        ] {
            assert_eq!(text(nodes, 0, max_unavailable), expected, "{rule}");
        }
    }

    #[test]
    fn with_surge_a_new_pod_serves_before_the_old_one_goes_ds_1() {
        for (rule, nodes, max_surge, expected) in [
            ("the first", "Run a:o, Run b:o, Run c:o", 1, "+[n1] -[]"),
            ("two at once", "Run a:o, Run b:o, Run c:o", 2, "+[n1 n2] -[]"),
            ("its successor does not serve yet", "Run a:o x:u, Run b:o", 1, "+[] -[]"),
            ("it does", "Run a:o x, Run b:o", 1, "+[n2] -[a]"),
            ("an unavailable one is succeeded at once", "Run a:ou, Run b:o", 1, "+[n1 n2] -[]"),
            ("manage makes what is missing", "Run, Run b", 1, "+[] -[]"),
            ("misplaced, and needed", "Keep a:o, Run b:u", 1, "+[] -[]"),
            ("misplaced, and no longer needed", "Keep a:o, Run b", 1, "+[] -[a]"),
            ("misplaced, and no use", "Keep a:ou, Run b:u", 1, "+[] -[a]"),
            ("surplus counts", "Run a:o b:o, Run c:o", 1, "+[] -[]"),
        ] {
            assert_eq!(text(nodes, max_surge, 0), expected, "{rule}");
        }
    }

    #[test]
    fn on_delete_leaves_it_to_others_ds_1() {
        assert_eq!(next_step(&node_view("Run a:o"), Strategy::OnDelete), Actions::default());
    }
}
