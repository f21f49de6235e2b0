//! A budget's arithmetic: expected pods, healthy pods, and permitted disruptions.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::time::Duration;

use base::clock::{saturating_after, time, until};
use object::SharedObject;
use object::conditions::{self, ConditionStatus};
use object::owner::is_terminating;
use object::percent::{PercentageError, Rounding, scaled};
use object::pod::is_ready;
use object::well_known::condition::DISRUPTION_ALLOWED;

/// The expected pods of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExpectedCounts {
    /// The desired number of pods.
    pub(super) pods: i32,
    /// The number of pods that must be healthy.
    pub(super) healthy: i32,
}

/// Returns true if the expected count comes from the pods' owners rather than from the existing pods.
pub(super) fn needs_scale(budget: &PodDisruptionBudget) -> bool {
    let spec = budget.spec.as_ref();
    spec.is_some_and(|s| {
        s.max_unavailable.is_some() || matches!(s.min_available, Some(IntOrString::String(_)))
    })
}

/// Returns the requirements of a budget for `pods` matching pods, or for the `scale` of their owners. Percentages
/// round up.
pub(super) fn expected(
    budget: &PodDisruptionBudget,
    pods: i32,
    scale: i32,
) -> Result<ExpectedCounts, PercentageError> {
    let spec = budget.spec.clone().unwrap_or_default();
    if let Some(max_unavailable) = &spec.max_unavailable {
        let healthy = scale.saturating_sub(scaled(max_unavailable, scale, Rounding::Up)?);
        return Ok(ExpectedCounts { pods: scale, healthy: healthy.max(0) });
    }
    match &spec.min_available {
        Some(IntOrString::Int(healthy)) => Ok(ExpectedCounts { pods, healthy: *healthy }),
        Some(percent) => Ok(ExpectedCounts { pods: scale, healthy: scaled(percent, scale, Rounding::Up)? }),
        None => Ok(ExpectedCounts { pods: 0, healthy: 0 }),
    }
}

/// Evicted pods that the cache does not show as deleted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DisruptedPods {
    /// Pods that still count as disrupted, with the time of eviction.
    pub(super) pods: BTreeMap<String, Time>,
    /// Pods that no longer count, because they were not deleted in time.
    pub(super) overdue: Vec<String>,
    /// The time until the next of `pods` no longer counts.
    pub(super) recheck: Option<Duration>,
}

/// Determines the evictions still under way.
pub(super) fn disrupted(
    before: Option<&BTreeMap<String, Time>>,
    pods: &[SharedObject<Pod>],
    timeout: Duration,
    now: Timestamp,
) -> DisruptedPods {
    let mut disrupted = DisruptedPods::default();
    let Some(before) = before else { return disrupted };
    for pod in pods.iter().filter(|p| !is_terminating(&p.metadata)) {
        let Some(since) = before.get(pod.name()) else { continue };
        let left = until(now, saturating_after(since.0, timeout));
        if left.is_zero() {
            disrupted.overdue.push(pod.name().to_string());
        } else {
            disrupted.pods.insert(pod.name().to_string(), since.clone());
            disrupted.recheck = Some(disrupted.recheck.map_or(left, |r| r.min(left)));
        }
    }
    disrupted
}

/// Returns the number of healthy pods that are not being disrupted.
pub(super) fn count_healthy(pods: &[SharedObject<Pod>], disrupted: &DisruptedPods) -> i32 {
    let healthy = pods.iter().filter(|pod| {
        !is_terminating(&pod.metadata) && is_ready(pod) && !disrupted.pods.contains_key(pod.name())
    });
    i32::try_from(healthy.count()).unwrap_or(i32::MAX)
}

/// Returns the new status; `before` provides the condition's time.
pub(super) fn status(
    budget: &PodDisruptionBudget,
    before: Option<&PodDisruptionBudgetStatus>,
    expected: ExpectedCounts,
    current_healthy: i32,
    disrupted: &DisruptedPods,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    // A budget that matches nothing yet allows nothing: its first pods may appear before they are counted.
    let allowed = if expected.pods > 0 { current_healthy.saturating_sub(expected.healthy).max(0) } else { 0 };
    let (status, reason) = if allowed > 0 {
        (ConditionStatus::True, "SufficientPods")
    } else {
        (ConditionStatus::False, "InsufficientPods")
    };
    PodDisruptionBudgetStatus {
        current_healthy: Some(current_healthy),
        desired_healthy: Some(expected.healthy),
        expected_pods: Some(expected.pods),
        disruptions_allowed: Some(allowed),
        disrupted_pods: (!disrupted.pods.is_empty()).then(|| disrupted.pods.clone()),
        observed_generation: budget.metadata.generation,
        conditions: Some(with_allowed(budget.metadata.generation, before, status, reason, "", now)),
    }
}

/// Returns the status of a budget that could not be computed: nothing may be disrupted.
pub(super) fn failed(
    before: Option<&PodDisruptionBudgetStatus>,
    message: &str,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    // The observed generation stays that of the last computed status.
    let observed = before.and_then(|s| s.observed_generation);
    PodDisruptionBudgetStatus {
        disruptions_allowed: Some(0),
        conditions: Some(with_allowed(observed, before, ConditionStatus::False, "SyncFailed", message, now)),
        ..before.cloned().unwrap_or_default()
    }
}

fn with_allowed(
    observed_generation: Option<i64>,
    before: Option<&PodDisruptionBudgetStatus>,
    status: ConditionStatus,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Vec<Condition> {
    let next = Condition {
        observed_generation,
        ..conditions::new(DISRUPTION_ALLOWED, status, reason, message, time(now))
    };
    let mut all = before.and_then(|s| s.conditions.clone()).unwrap_or_default();
    conditions::set(&mut all, next);
    all
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "tables of JSON read better without borrows")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn budget(spec: Value) -> PodDisruptionBudget {
        serde_json::from_value(json!({"metadata": {"name": "b", "generation": 2}, "spec": spec})).unwrap()
    }

    fn pod(name: &str, ready: bool, going: bool) -> SharedObject<Pod> {
        let deleted = going.then_some("2026-11-21T00:00:00Z");
        let ready = if ready { "True" } else { "False" };
        SharedObject::from_value(
            serde_json::from_value(json!({"metadata": {"name": name, "deletionTimestamp": deleted},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}}))
            .unwrap(),
        )
    }

    #[test]
    fn a_budget_is_counted_from_pods_or_their_owners_scale_pdb_1() {
        // spec, existing pods, scale of the owners, expected pods, desired healthy
        for (spec, pods, scale, expected_pods, healthy) in [
            (json!({"minAvailable": 2}), 3, 9, 3, 2),
            (json!({"minAvailable": "50%"}), 3, 7, 7, 4),
            (json!({"maxUnavailable": 1}), 3, 4, 4, 3),
            (json!({"maxUnavailable": "30%"}), 3, 4, 4, 2),
            (json!({"maxUnavailable": 9}), 3, 4, 4, 0),
            (json!({}), 3, 4, 0, 0),
        ] {
            let expected = expected(&budget(spec.clone()), pods, scale).unwrap();
            assert_eq!((expected.pods, expected.healthy), (expected_pods, healthy), "{spec}");
        }
    }

    #[test]
    fn disruptions_are_what_is_healthy_beyond_the_least_pdb_1() {
        let budget = budget(json!({"minAvailable": 2}));
        let now: Timestamp = "2026-11-21T00:01:00Z".parse().unwrap();
        let pods = [
            pod("a", true, false),
            pod("b", true, false),
            pod("c", true, false),
            pod("evicted", true, false),
            pod("overdue", true, false),
            pod("going", true, true),
            pod("unready", false, false),
        ];
        let evictions: BTreeMap<String, Time> = [
            ("evicted", "2026-11-21T00:00:30Z"),
            ("overdue", "2026-11-20T23:58:59Z"),
            ("going", "2026-11-21T00:00:30Z"),
            ("gone", "2026-11-21T00:00:30Z"),
        ]
        .map(|(name, at)| (name.to_string(), Time(at.parse().unwrap())))
        .into();
        let disrupted = disrupted(Some(&evictions), &pods, Duration::from_mins(2), now);
        assert_eq!(disrupted.pods.keys().collect::<Vec<_>>(), ["evicted"]);
        assert_eq!(
            (disrupted.overdue.join(" ").as_str(), disrupted.recheck),
            ("overdue", Some(Duration::from_secs(90)))
        );
        let healthy = count_healthy(&pods, &disrupted);
        assert_eq!(healthy, 4);
        let expected = expected(&budget, 7, 0).unwrap();
        let actual = status(&budget, None, expected, healthy, &disrupted, now);
        assert_eq!(
            (actual.disruptions_allowed, actual.desired_healthy, actual.expected_pods),
            (Some(2), Some(2), Some(7))
        );
        let condition = &actual.conditions.as_ref().unwrap()[0];
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("True", "SufficientPods"));
        let none = status(&budget, Some(&actual), ExpectedCounts { pods: 0, healthy: 0 }, 3, &disrupted, now);
        assert_eq!(none.disruptions_allowed, Some(0), "nothing is expected, nothing is allowed");
    }
}
