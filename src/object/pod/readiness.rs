//! Pod conditions, readiness and availability.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};

use crate::conditions::{self, Condition};
use crate::well_known::condition::READY;
use base::clock::{saturating_after, until};

/// A pod's availability, or the time until it is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It has been ready for at least `minReadySeconds`.
    Available,
    /// The pod is ready, and becomes available after this long if it stays ready.
    In(Duration),
    /// It is not ready.
    NotReady,
}

/// Returns the pod's condition of a type.
pub fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<&'a PodCondition> {
    conditions::get(pod.status.as_ref()?.conditions.as_ref(), type_)
}

/// Returns true if the pod's condition of a type is True.
pub fn is_true(pod: &Pod, type_: &str) -> bool {
    condition(pod, type_).is_some_and(Condition::is_true)
}

/// Returns true if the pod is ready for requests.
pub fn is_ready(pod: &Pod) -> bool {
    is_true(pod, READY)
}

/// Returns the time since which the pod has been ready; `None` if it is not, or if the time is unknown.
pub fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = condition(pod, READY).filter(|c| c.is_true())?;
    ready.last_transition_time.as_ref().map(|t| t.0)
}

/// Returns the availability at `now`: a pod is available after `minReadySeconds` of readiness without a break.
pub fn availability(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Availability {
    if !is_ready(pod) {
        return Availability::NotReady;
    }
    if min_ready_seconds <= 0 {
        return Availability::Available;
    }
    let seconds = Duration::from_secs(u64::from(min_ready_seconds.unsigned_abs()));
    match ready_since(pod) {
        None => Availability::NotReady,
        Some(since) => match until(now, saturating_after(since, seconds)) {
            Duration::ZERO => Availability::Available,
            left => Availability::In(left),
        },
    }
}

/// The number of ready and available pods, and the time until the next becomes available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AvailabilityCounts {
    /// Ready pods, available or not.
    pub ready: i32,
    /// Available pods.
    pub available: i32,
    /// The shortest time until a ready pod becomes available; `None` if no ready pod is yet to become available.
    pub next_available: Option<Duration>,
}

impl AvailabilityCounts {
    /// Counts one more pod.
    pub fn count(&mut self, availability: Availability) {
        match availability {
            Availability::NotReady => {}
            Availability::Available => {
                self.ready += 1;
                self.available += 1;
            }
            Availability::In(left) => {
                self.ready += 1;
                self.next_available = Some(self.next_available.map_or(left, |next| next.min(left)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(ready: &str, since: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "status": {"phase": "Running",
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}]}}))
        .unwrap()
    }

    #[test]
    fn availability_is_readiness_that_lasted_rs_1() {
        let now: Timestamp = "2026-11-21T00:01:00Z".parse().unwrap();
        let since = "2026-11-21T00:00:50Z";
        for (ready, min_ready, expected) in [
            ("True", 0, Availability::Available),
            ("True", 10, Availability::Available),
            ("True", 15, Availability::In(Duration::from_secs(5))),
            ("False", 0, Availability::NotReady),
            ("Unknown", 15, Availability::NotReady),
        ] {
            assert_eq!(availability(&pod(ready, since), min_ready, now), expected, "{ready} {min_ready}");
        }
        assert_eq!(availability(&Pod::default(), 0, now), Availability::NotReady);
    }
}
