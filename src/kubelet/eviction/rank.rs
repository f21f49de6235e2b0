//! Ranks the pods of a node for eviction (NODE-4): first pods that use more than they requested, then those of lower
//! priority, then those furthest above their request. Pure.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use crate::pressure::Signal;
use crate::spec;
use object::SharedObject;
use object::quantity::Amount;
use object::resources::pod_requests;

/// A pod that could be evicted.
#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) pod: SharedObject<Pod>,
    /// Each container's usage of the resource that is short; `None` without a measurement.
    pub(super) used: Option<BTreeMap<String, i64>>,
}

impl Candidate {
    fn usage(&self) -> Option<i64> {
        self.used.as_ref().map(|used| used.values().sum())
    }
}

/// The name under which pods request the resource; `None` if it cannot be requested.
pub(super) fn requested_as(signal: Signal) -> Option<&'static str> {
    match signal {
        Signal::MemoryAvailable => Some("memory"),
        Signal::NodefsAvailable | Signal::NodefsInodesFree => Some("ephemeral-storage"),
        Signal::PidAvailable => None,
    }
}

fn request(pod: &Pod, signal: Signal) -> i64 {
    let of = requested_as(signal).and_then(|resource| pod_requests(pod).get(resource).copied());
    of.map_or(0, Amount::units)
}

/// The pod to be evicted first sorts first.
pub(super) fn order(signal: Signal, a: &Candidate, b: &Candidate) -> Ordering {
    let key = |candidate: &Candidate| {
        let request = request(&candidate.pod, signal);
        let usage = candidate.usage();
        let priority = spec::spec(&candidate.pod).priority.unwrap_or(0);
        // Process ids cannot be requested: every pod is equally above its request.
        let within = signal != Signal::PidAvailable && usage.is_some_and(|usage| usage <= request);
        // Pods without a measurement go before those with one.
        (usage.is_some(), within, priority, Reverse(usage.unwrap_or(0).saturating_sub(request)))
    };
    key(a).cmp(&key(b)).then_with(|| a.pod.key().cmp(&b.pod.key()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, priority: i32, request: &str, used: Option<i64>) -> Candidate {
        let pod = json!({"metadata": {"name": name}, "spec": {"priority": priority, "containers": [
            {"name": "c", "resources": {"requests": {"memory": request, "ephemeral-storage": request}}}]}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let used = used.map(|used| BTreeMap::from([("c".to_string(), used)]));
        Candidate { pod: SharedObject::from_value(pod), used }
    }

    fn whole(name: &str, request: &str, used: Option<i64>) -> Candidate {
        let mut candidate = pod(name, 0, "1", used);
        let mut own = (*candidate.pod).clone();
        own.spec.as_mut().unwrap().resources =
            Some(serde_json::from_value(json!({"requests": {"memory": request}})).unwrap());
        candidate.pod = SharedObject::from_value(own);
        candidate
    }

    #[test]
    fn the_greedy_go_first_and_the_modest_last_node_4() {
        for (rule, signal, pods, expected) in [
            (
                "over its request before within it, whatever the priority",
                Signal::MemoryAvailable,
                vec![pod("modest", 0, "100", Some(100)), pod("greedy", 1000, "100", Some(101))],
                "greedy modest",
            ),
            (
                "then the lower priority",
                Signal::MemoryAvailable,
                vec![pod("high", 10, "1", Some(900)), pod("low", 5, "1", Some(20))],
                "low high",
            ),
            (
                "then who is furthest above, not who uses most",
                Signal::MemoryAvailable,
                vec![pod("big", 0, "900", Some(950)), pod("far", 0, "100", Some(300))],
                "far big",
            ),
            (
                "within the request: by priority, then by what is nearest to it",
                Signal::MemoryAvailable,
                vec![
                    pod("idle", 0, "500", Some(100)),
                    pod("busy", 0, "500", Some(400)),
                    pod("less", -1, "500", Some(1)),
                ],
                "less busy idle",
            ),
            (
                "best effort is over its request as soon as it uses anything",
                Signal::NodefsAvailable,
                vec![pod("burst", 0, "500", Some(400)), pod("best", 0, "0", Some(1))],
                "best burst",
            ),
            (
                "a request of the pod as a whole goes before its containers'",
                Signal::MemoryAvailable,
                vec![whole("modest", "900", Some(850)), pod("greedy", 1000, "100", Some(101))],
                "greedy modest",
            ),
            (
                "unmeasured first",
                Signal::MemoryAvailable,
                vec![pod("known", 0, "0", Some(900)), pod("unknown", 100, "0", None)],
                "unknown known",
            ),
            (
                "process ids: by priority, then by number",
                Signal::PidAvailable,
                vec![
                    pod("many", 5, "0", Some(900)),
                    pod("few", 0, "0", Some(2)),
                    pod("some", 0, "0", Some(9)),
                ],
                "some few many",
            ),
        ] {
            let mut pods = pods;
            pods.sort_by(|a, b| order(signal, a, b));
            let names: Vec<&str> = pods.iter().map(|p| p.pod.name()).collect();
            assert_eq!(names.join(" "), expected, "{rule}");
        }
    }
}
