//! The rollout's arithmetic with numbers up to the limits of their type, and the time of its next check.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::prelude::*;
use serde_json::json;

use super::progress::check_after;
use super::view::{Budget, ReplicaSetView, View, testing};
use super::{rolling, scaling};

/// Generates a size: small, or near the largest possible.
fn size() -> impl Strategy<Value = i32> {
    prop_oneof![0..20, Just(i32::MAX), i32::MAX - 20..=i32::MAX]
}

/// Generates a bound: small, huge, or a percentage.
fn bound() -> impl Strategy<Value = IntOrString> {
    prop_oneof![
        size().prop_map(IntOrString::Int),
        (0..=1000).prop_map(|percent| IntOrString::String(format!("{percent}%"))),
    ]
}

fn any_member(name: &'static str) -> impl Strategy<Value = ReplicaSetView> {
    let annotation = || prop::option::of(prop_oneof![size(), Just(i32::MIN), Just(-1)].prop_map(i64::from));
    (size(), size(), size(), annotation(), annotation()).prop_map(
        move |(size, actual, available, desired_annotation, max_annotation)| ReplicaSetView {
            actual: actual.into(),
            desired_annotation,
            max_annotation,
            ..testing::member(name, size.into(), available.into())
        },
    )
}

proptest! {
    /// Statuses, annotations and bounds may be as large as their type allows.
    #[test]
    fn no_number_overflows_and_no_size_leaves_its_range_dep_2(
        (replicas, surge, unavailable, status_replicas) in (size(), bound(), bound(), size()),
        members in (any_member("a"), any_member("b"), any_member("new")),
    ) {
        let budget = Budget::rolling(replicas, &surge, &unavailable);
        let members = vec![members.0, members.1, members.2];
        let view = View { budget, members, status_replicas: status_replicas.into() };
        let new = rolling::new_size(&view, 0);
        prop_assert!((0..=i64::from(replicas)).contains(&new));
        for resize in rolling::next_step(&view).into_iter().chain(scaling::next_step(&view)) {
            prop_assert!(resize.to >= 0, "{resize:?}");
        }
    }
}

/// Checking an ended rollout again and again finds nothing: it cannot exceed its deadline.
#[test]
fn only_a_rollout_that_runs_is_checked_at_its_deadline_dep_5() {
    for (reason, expected) in [
        ("ReplicaSetUpdated", Some(Duration::from_secs(301))),
        ("NewReplicaSetAvailable", None),
        ("ProgressDeadlineExceeded", None),
    ] {
        let deployment: Deployment = serde_json::from_value(json!({
            "spec": {"replicas": 2, "progressDeadlineSeconds": 600, "selector": {}, "template": {}},
            "status": {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 1, "conditions": [{
                "type": "Progressing", "status": "True", "reason": reason,
                "lastUpdateTime": "2026-11-21T00:55:00Z"}]}}))
        .unwrap();
        let now = "2026-11-21T01:00:00Z".parse().unwrap();
        assert_eq!(check_after(&deployment, deployment.status.as_ref().unwrap(), now), expected, "{reason}");
    }
}
