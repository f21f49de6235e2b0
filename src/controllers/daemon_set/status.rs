//! A DaemonSet's status, counted from its nodes.

use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSetStatus;

use super::node_view::NodeView;
use super::placement::NodeFit;
use object::pod::Availability;

/// Returns the counts; generation and collisions stay as they were.
pub(super) fn count(node_view: &NodeView, before: Option<&DaemonSetStatus>) -> DaemonSetStatus {
    let (mut desired, mut current, mut misscheduled, mut ready) = (0, 0, 0, 0);
    let (mut updated, mut available) = (0, 0);
    for node_pods in &node_view.nodes {
        // The oldest pod counts, because a surge pod may still fail.
        let first = node_pods.daemons.first();
        if node_pods.fit != NodeFit::Run {
            misscheduled += i32::from(first.is_some());
            continue;
        }
        desired += 1;
        let Some(daemon) = first else { continue };
        current += 1;
        ready += i32::from(daemon.ready);
        available += i32::from(daemon.is_available());
        updated += i32::from(daemon.updated);
    }
    let some = |n: i32| (n != 0).then_some(n);
    DaemonSetStatus {
        desired_number_scheduled: desired,
        current_number_scheduled: current,
        number_misscheduled: misscheduled,
        number_ready: ready,
        updated_number_scheduled: some(updated),
        number_available: some(available),
        number_unavailable: some(desired - available),
        ..before.cloned().unwrap_or_default()
    }
}

/// Returns the time until the next ready pod becomes available.
pub(super) fn next_available(node_view: &NodeView) -> Option<Duration> {
    let daemons = node_view.nodes.iter().flat_map(|node_pods| &node_pods.daemons);
    daemons
        .filter_map(|daemon| match daemon.availability {
            Availability::In(left) => Some(left),
            Availability::Available | Availability::NotReady => None,
        })
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon_set::node_view::tests::node_view;

    #[test]
    fn nodes_are_counted_by_their_oldest_pod_ds_1() {
        // desired, current, misscheduled, ready, updated, available, unavailable
        for (nodes, expected) in [
            ("Run", [1, 0, 0, 0, 0, 0, 1]),
            ("Run a, Run b:o, Run c:u, Run d:w, Run", [5, 4, 0, 3, 3, 2, 3]),
            ("Run a:o b:u", [1, 1, 0, 1, 0, 1, 0]),
            ("Keep a, Never b:g, Keep, Never", [0, 0, 2, 0, 0, 0, 0]),
        ] {
            let actual = count(&node_view(nodes), None);
            let or_zero = |n: Option<i32>| n.unwrap_or(0);
            assert_eq!(
                [
                    actual.desired_number_scheduled,
                    actual.current_number_scheduled,
                    actual.number_misscheduled,
                    actual.number_ready,
                    or_zero(actual.updated_number_scheduled),
                    or_zero(actual.number_available),
                    or_zero(actual.number_unavailable),
                ],
                expected,
                "{nodes}"
            );
        }
        let before = DaemonSetStatus { collision_count: Some(2), ..DaemonSetStatus::default() };
        assert_eq!(count(&node_view("Run"), Some(&before)).collision_count, Some(2));
        assert_eq!(next_available(&node_view("Run a, Keep b:w")), Some(Duration::from_secs(3)));
        assert_eq!(next_available(&node_view("Run a, Keep b:u")), None);
    }
}
