//! A ReplicaSet's status, counted from its pods.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;

use super::kind::ReplicatedKind;
use base::clock::time;
use object::SharedObject;
use object::conditions::{self, ConditionStatus};
use object::pod::{AvailabilityCounts, availability};
use object::selector::Selector;
use object::well_known::condition::REPLICA_FAILURE;

/// The reason why pods could not be created or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// `FailedCreate` or `FailedDelete`.
    pub(super) reason: &'static str,
    /// The API's error message.
    pub(super) message: String,
}

/// The status, and the time until the next ready pod becomes available.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ComputedStatus {
    pub(super) status: ReplicaSetStatus,
    pub(super) next_available: Option<Duration>,
}

/// Counts the active pods; `previous` provides a failure's time.
pub(super) fn count(
    set: &impl ReplicatedKind,
    previous: Option<&ReplicaSetStatus>,
    active: &[SharedObject<Pod>],
    terminating: usize,
    failure: Option<&Failure>,
    now: Timestamp,
) -> ComputedStatus {
    let template = set.template().and_then(|t| t.metadata.as_ref()?.labels.as_ref());
    let template = template.map_or_else(Selector::everything, Selector::from_labels);
    let min_ready_seconds = set.min_ready_seconds();
    let (mut labelled, mut counts) = (0, AvailabilityCounts::default());
    for pod in active {
        labelled += i32::from(template.matches(pod.metadata.labels.as_ref()));
        counts.count(availability(pod, min_ready_seconds, now));
    }
    let some = |n: i32| (n != 0).then_some(n);
    let status = ReplicaSetStatus {
        replicas: i32::try_from(active.len()).unwrap_or(i32::MAX),
        fully_labeled_replicas: some(labelled),
        ready_replicas: some(counts.ready),
        available_replicas: some(counts.available),
        terminating_replicas: Some(i32::try_from(terminating).unwrap_or(i32::MAX)),
        observed_generation: set.metadata().generation,
        conditions: conditions(previous, failure, now),
    };
    ComputedStatus { status, next_available: counts.next_available }
}

/// Returns the conditions with the present ReplicaFailure; while a failure lasts the first one stays.
pub(super) fn conditions(
    previous: Option<&ReplicaSetStatus>,
    failure: Option<&Failure>,
    now: Timestamp,
) -> Option<Vec<ReplicaSetCondition>> {
    let mut all = previous.and_then(|s| s.conditions.clone());
    match failure {
        None => conditions::remove(&mut all, REPLICA_FAILURE),
        Some(_) if conditions::get(all.as_ref(), REPLICA_FAILURE).is_some() => {}
        Some(failure) => {
            let Failure { reason, message, .. } = failure;
            let next = conditions::new(REPLICA_FAILURE, ConditionStatus::True, reason, message, time(now));
            conditions::set(all.get_or_insert_default(), next);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_are_counted_and_a_failure_lasts_until_it_is_over_rs_1() {
        let set: ReplicaSet = serde_json::from_value(json!({"metadata": {"name": "s", "generation": 4},
            "spec": {"replicas": 3, "minReadySeconds": 30, "selector": {},
                "template": {"metadata": {"labels": {"app": "web", "tier": "x"}}}}}))
        .unwrap();
        let pod = |ready_since: Option<&str>, labels: serde_json::Value| {
            let conditions = ready_since
                .map(|since| json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]));
            SharedObject::from_value(
                serde_json::from_value::<Pod>(json!({"metadata": {"labels": labels},
                    "status": {"phase": "Running", "conditions": conditions}}))
                .unwrap(),
            )
        };
        let full = json!({"app": "web", "tier": "x", "extra": "y"});
        let pods = [
            pod(Some("2026-11-21T00:00:00Z"), full.clone()),
            pod(Some("2026-11-21T00:00:50Z"), full),
            pod(Some("2026-11-21T00:00:40Z"), json!({"app": "web"})),
            pod(None, json!({"app": "web"})),
        ];
        let now = "2026-11-21T00:01:00Z".parse().unwrap();
        let quota = Failure { reason: "FailedCreate", message: "exceeded quota".into() };
        let counted = count(&set, None, &pods, 2, Some(&quota), now);
        let status = &counted.status;
        assert_eq!(
            (
                status.replicas, status.fully_labeled_replicas, status.ready_replicas,
                status.available_replicas
            ),
            (4, Some(2), Some(3), Some(1))
        );
        assert_eq!((status.terminating_replicas, status.observed_generation), (Some(2), Some(4)));
        assert_eq!(counted.next_available, Some(Duration::from_secs(10)));
        let failure = &status.conditions.as_ref().unwrap()[0];
        assert_eq!(failure.message.as_deref(), Some("exceeded quota"));
        let later = Failure { message: "another".into(), ..quota };
        let again = count(&set, Some(status), &pods, 2, Some(&later), now);
        assert_eq!(again.status.conditions, status.conditions, "the first failure stands");
        assert_eq!(count(&set, Some(status), &pods, 2, None, now).status.conditions, None);
    }
}
