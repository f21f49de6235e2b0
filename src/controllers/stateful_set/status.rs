//! What a StatefulSet tells of its pods.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::Pod;

use super::identity::revision_of;
use super::plan::{Ask, Update};
use crate::object::Shared;
use crate::object::owner::is_terminating;
use crate::object::readiness::{Tally, availability, phase};

/// The names of the revisions that count, and how often a name was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Revisions {
    /// Of the pods that the update has not come to.
    pub(super) current: String,
    /// Of the set's template.
    pub(super) update: String,
    pub(super) collisions: i32,
}

impl Revisions {
    /// As they were told last.
    pub(super) fn told(status: Option<&StatefulSetStatus>) -> Self {
        let status = status.cloned().unwrap_or_default();
        Self {
            current: status.current_revision.unwrap_or_default(),
            update: status.update_revision.unwrap_or_default(),
            collisions: status.collision_count.unwrap_or(0),
        }
    }
}

/// The status, and when a ready pod becomes available next.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counted {
    pub(super) status: StatefulSetStatus,
    pub(super) next_available: Option<Duration>,
}

/// Counts the set's pods, those that go among them; a finished update makes its revision the current one.
pub(super) fn count(
    set: &StatefulSet,
    pods: &[Shared<Pod>],
    revisions: &Revisions,
    now: Timestamp,
) -> Counted {
    let min_ready_seconds = set.spec.min_ready_seconds.unwrap_or(0);
    let (mut current, mut updated, mut tally) = (0, 0, Tally::default());
    for pod in pods {
        if phase(pod) == "Running" {
            tally.count(availability(pod, min_ready_seconds, now));
        }
        if !is_terminating(&pod.metadata) {
            let revision = revision_of(pod);
            current += i32::from(revision == revisions.current);
            updated += i32::from(revision == revisions.update);
        }
    }
    let replicas = i32::try_from(pods.len()).unwrap_or(i32::MAX);
    let wanted = set.spec.replicas.unwrap_or(1);
    let rolls = matches!(Ask::of(set).update, Update::Rolling { .. });
    let complete = rolls && [replicas, tally.ready, updated].iter().all(|count| *count == wanted);
    let current_revision = if complete { &revisions.update } else { &revisions.current };
    let some = |n: i32| (n != 0).then_some(n);
    let name = |name: &String| Some(name.clone()).filter(|n| !n.is_empty());
    let status = StatefulSetStatus {
        replicas,
        ready_replicas: some(tally.ready),
        available_replicas: Some(tally.available),
        current_replicas: some(if complete { updated } else { current }),
        updated_replicas: some(updated),
        current_revision: name(current_revision),
        update_revision: name(&revisions.update),
        collision_count: Some(revisions.collisions),
        observed_generation: set.metadata.generation,
        conditions: set.status.as_ref().and_then(|s| s.conditions.clone()),
    };
    Counted { status, next_available: tally.next_available }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(revision: &str, ready_since: Option<&str>, going: bool) -> Shared<Pod> {
        let conditions =
            ready_since.map(|since| json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]));
        let mut meta = json!({"labels": {"controller-revision-hash": revision}});
        if going {
            meta["deletionTimestamp"] = json!("2026-11-21T00:00:00Z");
        }
        let value = json!({"metadata": meta, "status": {"phase": "Running", "conditions": conditions}});
        Shared::from_value(serde_json::from_value(value).unwrap())
    }

    fn set(replicas: i32, strategy: &str) -> StatefulSet {
        let value: Value = json!({"metadata": {"name": "web", "generation": 3},
            "spec": {"replicas": replicas, "minReadySeconds": 30, "selector": {}, "serviceName": "",
                "template": {}, "updateStrategy": {"type": strategy}}});
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn pods_are_counted_by_revision_and_readiness_sts_2() {
        let now: Timestamp = "2026-11-21T00:01:00Z".parse().unwrap();
        let revisions = Revisions { current: "web-1".into(), update: "web-2".into(), collisions: 0 };
        let pods = [
            pod("web-1", Some("2026-11-21T00:00:00Z"), false),
            pod("web-1", Some("2026-11-21T00:00:00Z"), true),
            pod("web-2", Some("2026-11-21T00:00:50Z"), false),
            pod("web-2", None, false),
        ];
        let counted = count(&set(4, "RollingUpdate"), &pods, &revisions, now);
        let status = &counted.status;
        assert_eq!((status.replicas, status.ready_replicas, status.available_replicas), (4, Some(3), Some(2)));
        assert_eq!((status.current_replicas, status.updated_replicas), (Some(1), Some(2)));
        assert_eq!(status.current_revision.as_deref(), Some("web-1"));
        assert_eq!(counted.next_available, Some(Duration::from_secs(20)));
    }

    #[test]
    fn a_finished_update_is_the_current_revision_sts_2() {
        let now: Timestamp = "2026-11-21T00:01:00Z".parse().unwrap();
        let revisions = Revisions { current: "web-1".into(), update: "web-2".into(), collisions: 0 };
        let pods = [pod("web-2", Some("2026-11-21T00:00:00Z"), false), pod("web-2", Some("2026-11-21T00:00:00Z"), false)];
        let current = |set: &StatefulSet, pods: &[Shared<Pod>]| {
            let status = count(set, pods, &revisions, now).status;
            (status.current_revision.unwrap(), status.current_replicas)
        };
        assert_eq!(current(&set(2, "RollingUpdate"), &pods), ("web-2".into(), Some(2)));
        assert_eq!(current(&set(3, "RollingUpdate"), &pods), ("web-1".into(), None), "one is missing");
        assert_eq!(current(&set(2, "OnDelete"), &pods), ("web-1".into(), None), "nobody said it was to finish");
    }
}
