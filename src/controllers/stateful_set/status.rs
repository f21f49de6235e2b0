//! A StatefulSet's status, counted from its pods.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};

use super::desired::{DesiredSet, Update};
use super::member::State;
use super::pod_cache::PodCache;
use object::pod::AvailabilityCounts;

/// The names of the current and the update revision, and the number of collisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Revisions {
    /// The revision of pods that the update has not reached.
    pub(super) current: String,
    /// The revision of the set's template.
    pub(super) update: String,
    pub(super) collisions: i32,
}

impl Revisions {
    /// Returns the revisions in a status.
    pub(super) fn of_status(status: Option<&StatefulSetStatus>) -> Self {
        let status = status.cloned().unwrap_or_default();
        Self {
            current: status.current_revision.unwrap_or_default(),
            update: status.update_revision.unwrap_or_default(),
            collisions: status.collision_count.unwrap_or(0),
        }
    }
}

/// The status, and the time until the next ready pod becomes available.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ComputedStatus {
    pub(super) status: StatefulSetStatus,
    pub(super) next_available: Option<Duration>,
}

/// Counts the set's pods, including terminating ones; a finished update makes its revision the current one.
pub(super) fn count(set: &StatefulSet, pod_cache: &PodCache, revisions: &Revisions) -> ComputedStatus {
    let (mut replicas, mut current, mut updated, mut counts) = (0, 0, 0, AvailabilityCounts::default());
    for (_, pod_state) in pod_cache.pod_states() {
        replicas += 1;
        if let Some(availability) = pod_state.serving() {
            counts.count(availability);
        }
        if pod_state.state != State::Terminating {
            current += i32::from(pod_state.revision == revisions.current);
            updated += i32::from(pod_state.revision == revisions.update);
        }
    }
    let desired = set.spec.replicas.unwrap_or(1);
    let rolls = matches!(DesiredSet::of(set).update, Update::Rolling { .. });
    let complete = rolls && [replicas, counts.ready, updated].iter().all(|count| *count == desired);
    let current_revision = if complete { &revisions.update } else { &revisions.current };
    let some = |n: i32| (n != 0).then_some(n);
    let name = |name: &String| Some(name.clone()).filter(|n| !n.is_empty());
    let status = StatefulSetStatus {
        replicas,
        ready_replicas: some(counts.ready),
        available_replicas: Some(counts.available),
        current_replicas: some(if complete { updated } else { current }),
        updated_replicas: some(updated),
        current_revision: name(current_revision),
        update_revision: name(&revisions.update),
        collision_count: Some(revisions.collisions),
        observed_generation: set.metadata.generation,
        conditions: set.status.as_ref().and_then(|s| s.conditions.clone()),
    };
    ComputedStatus { status, next_available: counts.next_available }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;
    use crate::stateful_set::pod_cache::tests::pod_cache;
    use object::SharedObject;

    fn pod(ordinal: i32, revision: &str, ready_since: Option<&str>, going: bool) -> SharedObject<Pod> {
        let conditions = ready_since
            .map(|since| json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]));
        let mut meta =
            json!({"name": format!("web-{ordinal}"), "labels": {"controller-revision-hash": revision}});
        if going {
            meta["deletionTimestamp"] = json!("2026-11-21T00:00:00Z");
        }
        let value = json!({"metadata": meta, "status": {"phase": "Running", "conditions": conditions}});
        SharedObject::from_value(serde_json::from_value(value).unwrap())
    }

    fn set(replicas: i32, strategy: &str) -> SharedObject<StatefulSet> {
        let value: Value = json!({"metadata": {"name": "web", "generation": 3},
            "spec": {"replicas": replicas, "minReadySeconds": 30, "selector": {}, "serviceName": "",
                "template": {}, "updateStrategy": {"type": strategy}}});
        SharedObject::from_value(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn pods_are_counted_by_revision_and_readiness_sts_2() {
        let now: Timestamp = "2026-11-21T00:01:00Z".parse().unwrap();
        let revisions = Revisions { current: "web-1".into(), update: "web-2".into(), collisions: 0 };
        let pods = [
            pod(0, "web-1", Some("2026-11-21T00:00:00Z"), false),
            pod(1, "web-1", Some("2026-11-21T00:00:00Z"), true),
            pod(2, "web-2", Some("2026-11-21T00:00:50Z"), false),
            pod(3, "web-2", None, false),
        ];
        let set = set(4, "RollingUpdate");
        let counted = count(&set, &pod_cache(&set, &pods, now), &revisions);
        let status = &counted.status;
        assert_eq!(
            (status.replicas, status.ready_replicas, status.available_replicas),
            (4, Some(3), Some(2))
        );
        assert_eq!((status.current_replicas, status.updated_replicas), (Some(1), Some(2)));
        assert_eq!(status.current_revision.as_deref(), Some("web-1"));
        assert_eq!(counted.next_available, Some(Duration::from_secs(20)));
    }

    #[test]
    fn a_finished_update_is_the_current_revision_sts_2() {
        let now: Timestamp = "2026-11-21T00:01:00Z".parse().unwrap();
        let revisions = Revisions { current: "web-1".into(), update: "web-2".into(), collisions: 0 };
        let pods = [
            pod(0, "web-2", Some("2026-11-21T00:00:00Z"), false),
            pod(1, "web-2", Some("2026-11-21T00:00:00Z"), false),
        ];
        let current = |set: &SharedObject<StatefulSet>, pods: &[SharedObject<Pod>]| {
            let status = count(set, &pod_cache(set, pods, now), &revisions).status;
            (status.current_revision.unwrap(), status.current_replicas)
        };
        assert_eq!(current(&set(2, "RollingUpdate"), &pods), ("web-2".into(), Some(2)));
        assert_eq!(current(&set(3, "RollingUpdate"), &pods), ("web-1".into(), None), "one is missing");
        assert_eq!(
            current(&set(2, "OnDelete"), &pods),
            ("web-1".into(), None),
            "OnDelete does not complete the update"
        );
    }
}
