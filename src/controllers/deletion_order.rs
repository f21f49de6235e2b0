//! The order in which surplus pods are deleted.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use base::sort::SliceOrder;
use object::SharedObject;
use object::pod::{Phase, is_ready, node_name, phase, ready_since};
use object::well_known::annotation::POD_DELETION_COST;

/// The sort key of pods: those that sort first are deleted first. `beside` counts related pods on the same node.
///
/// Kubernetes' order: unassigned, pending, not ready, lower deletion cost, more related pods on the node, ready for a
/// shorter time, more restarts, younger. Times are compared by their magnitude, so that pods of about the same age
/// are treated alike.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    assigned: bool,
    phase: u8,
    ready: bool,
    deletion_cost: i32,
    beside: Reverse<usize>,
    ready_magnitude: Magnitude,
    restarts: Reverse<(i32, i32)>,
    age_magnitude: Magnitude,
}

/// The binary logarithm of a time span in nanoseconds; none for a span that has not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Magnitude(i32);

impl Magnitude {
    fn since(then: Option<Timestamp>, now: Timestamp) -> Self {
        let nanoseconds = then.map_or(0, |then| now.duration_since(then).as_nanos());
        Self(u128::try_from(nanoseconds).ok().and_then(u128::checked_ilog2).map_or(-1, |log| log as i32))
    }
}

impl Rank {
    fn of(pod: &Pod, beside: usize, now: Timestamp) -> Self {
        Self {
            assigned: node_name(pod).is_some(),
            phase: match phase(pod) {
                Phase::Pending => 0,
                Phase::Running => 2,
                _ => 1,
            },
            ready: is_ready(pod),
            deletion_cost: deletion_cost(pod),
            beside: Reverse(beside),
            ready_magnitude: Magnitude::since(ready_since(pod), now),
            restarts: Reverse(restarts(pod)),
            age_magnitude: Magnitude::since(pod.metadata.creation_timestamp.as_ref().map(|t| t.0), now),
        }
    }
}

fn deletion_cost(pod: &Pod) -> i32 {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.and_then(|a| a.get(POD_DELETION_COST)).and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

/// Returns the most restarts of any app container, then of any init container.
fn restarts(pod: &Pod) -> (i32, i32) {
    let most = |statuses: Option<&Vec<ContainerStatus>>| {
        statuses.into_iter().flatten().map(|s| s.restart_count).max().unwrap_or(0)
    };
    let status = pod.status.as_ref();
    (
        most(status.and_then(|s| s.container_statuses.as_ref())),
        most(status.and_then(|s| s.init_container_statuses.as_ref())),
    )
}

/// Returns the `count` pods to delete first.
///
/// `related` are the active pods of all owners under the same controller: if several of them share a node, one of
/// those is deleted earlier.
pub(crate) fn pods_to_delete<'a>(
    pods: &'a [SharedObject<Pod>],
    related: &[SharedObject<Pod>],
    count: usize,
    now: Timestamp,
) -> Vec<&'a SharedObject<Pod>> {
    if count >= pods.len() {
        return pods.iter().collect();
    }
    let mut on_node: HashMap<&str, usize> = HashMap::new();
    for pod in related {
        if let Some(node) = node_name(pod) {
            *on_node.entry(node).or_default() += 1;
        }
    }
    let beside = |pod: &Pod| node_name(pod).and_then(|n| on_node.get(n)).copied().unwrap_or(0);
    let mut ranked: Vec<(Rank, &SharedObject<Pod>)> =
        pods.iter().map(|pod| (Rank::of(pod, beside(pod), now), pod)).collect();
    ranked.order_by(|(a, pod_a), (b, pod_b)| match a.cmp(b) {
        Ordering::Equal => pod_a.uid().cmp(pod_b.uid()),
        other => other,
    });
    ranked.into_iter().take(count).map(|(_, pod)| pod).collect()
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "tables of JSON read better without borrows")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Creates a pod that has run on `node` since midnight, with these differences.
    fn pod(name: &str, node: &str, differences: Value) -> SharedObject<Pod> {
        let mut value = json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-11-21T00:00:00Z"},
            "spec": {"containers": [], "nodeName": node},
            "status": {"phase": "Running",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T00:00:10Z"}]}});
        json_patch::merge(&mut value, &differences);
        SharedObject::from_value(serde_json::from_value(value).unwrap())
    }

    fn order(pods: &[SharedObject<Pod>]) -> String {
        let now = "2026-11-21T04:00:00Z".parse().unwrap();
        let mut names: Vec<&str> = Vec::new();
        for count in 1..pods.len() {
            let deleted: Vec<&str> =
                pods_to_delete(pods, pods, count, now).iter().map(|p| p.name()).collect();
            names.extend(deleted.into_iter().filter(|n| !names.contains(n)).collect::<Vec<_>>());
        }
        names.join(" ")
    }

    #[test]
    fn the_least_useful_pod_goes_first_rs_1() {
        let ready = |status: &str, since: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": since}]}});
        let good = pod("good", "n0", json!({}));
        let pods = [
            good.clone(),
            pod(
                "old-but-restarted",
                "n1",
                json!({"status": {"containerStatuses":
                [{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 3}]}}),
            ),
            pod("younger-ready", "n2", ready("True", "2026-11-21T03:59:00Z")),
            pod("cheap", "n3", json!({"metadata": {"annotations": {POD_DELETION_COST: "-5"}}})),
            pod("not-ready", "n4", ready("False", "2026-11-21T00:00:10Z")),
            pod("pending", "n5", json!({"status": {"phase": "Pending", "conditions": null}})),
            pod("unassigned", "", json!({"status": {"phase": "Pending", "conditions": null}})),
            pod("twin-a", "n6", json!({})),
            pod("twin-b", "n6", json!({})),
        ];
        assert_eq!(
            order(&pods),
            "unassigned pending not-ready cheap twin-a twin-b younger-ready old-but-restarted"
        );
    }

    #[test]
    fn a_bare_pod_over_the_count_goes_first_rs_1() {
        let mut pods: Vec<_> = (0..3).map(|i| pod(&format!("owned-{i}"), "n", json!({}))).collect();
        pods.push(pod(
            "bare",
            "",
            json!({"status": {"phase": "Pending", "conditions": null},
            "metadata": {"creationTimestamp": "2026-11-21T03:59:59Z"}}),
        ));
        assert!(order(&pods).starts_with("bare"));
    }

    #[test]
    fn ages_are_compared_by_magnitude_and_then_by_uid_rs_1() {
        let created = |name: &str, at: &str| {
            pod(name, "n", json!({"metadata": {"creationTimestamp": at}, "status": {"conditions": null}}))
        };
        let pods = [
            created("b-ten-seconds", "2026-11-21T03:59:50Z"),
            created("a-twelve-seconds", "2026-11-21T03:59:48Z"),
            created("an-hour", "2026-11-21T03:00:00Z"),
        ];
        assert_eq!(order(&pods), "a-twelve-seconds b-ten-seconds");
    }
}
