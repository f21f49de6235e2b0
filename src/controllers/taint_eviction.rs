//! Taint-based eviction: deletes pods on nodes with NoExecute taints that they do not tolerate, or no longer tolerate
//! (NODE-2).

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};
use parking_lot::Mutex;

use super::context::Context;
use api::{Api, ApiError};
use api::{Change, ChangeKind};
use base::clock::{saturating_after, until};
use object::conditions::{Condition as _, ConditionStatus};
use object::owner::is_terminating;
use object::pod::disruption::DisruptionReason;
use object::pod::{condition, is_terminal, node_name};
use object::storage::is_out_of_service;
use object::taint::{effect::NO_EXECUTE, tolerates};
use object::well_known::condition::POD_SCHEDULED;
use object::well_known::taint::UNREACHABLE;
use object::{Key, SharedObject};
use reconcile::{Cache, Disruption, ReconcileError, Reconciler, Recorder, WorkQueue, disrupt};

/// The time for which a pod may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TolerationTime {
    /// For ever: it tolerates all taints.
    Forever,
    /// It tolerates the taints until then.
    Until(Timestamp),
    /// Not at all, or no longer: it does not tolerate one of the taints.
    No,
}

pub(super) fn start(context: &Context) {
    context
        .controller(|queue| Evictions {
            api: context.api.clone(),
            pods: context.caches.of(),
            nodes: context.caches.of(),
            counting_down: Mutex::default(),
            first_seen: Mutex::default(),
            recorder: Recorder::new(&context.api, "taint-eviction-controller"),
            queue,
        })
        .keys_of::<Pod>()
        .watches::<Node, _>(Evictions::node_changed)
        .watches::<Pod, _>(Evictions::pod_changed)
        .run(&context.tasks);
}

struct Evictions {
    api: Api,
    pods: Cache<Pod>,
    nodes: Cache<Node>,
    /// Pods that will be evicted.
    counting_down: Mutex<HashSet<Key>>,
    first_seen: Mutex<TaintTimes>,
    recorder: Recorder,
    queue: WorkQueue<Key>,
}

impl Reconciler for Evictions {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(pod) = self.pods.get(key) else {
            self.counting_down.lock().remove(key);
            return Ok(());
        };
        if is_terminating(&pod.metadata) || is_terminal(&pod) {
            self.counting_down.lock().remove(key);
            return Ok(());
        }
        let Some(node) = node_name(&pod).and_then(|name| self.nodes.get(&Key::new("", name))) else {
            return Ok(());
        };
        let tolerations = pod.spec.as_ref().and_then(|s| s.tolerations.as_deref()).unwrap_or_default();
        let now = self.api.clock().now();
        match tolerated(&self.active_taints(&node, now), tolerations, placed(&pod), now) {
            TolerationTime::Forever => {
                if self.counting_down.lock().remove(key) {
                    let message = format!("Cancelling deletion of Pod {key}");
                    self.recorder.normal(pod.object(), "TaintManagerEviction", message);
                }
            }
            TolerationTime::Until(end) => {
                self.counting_down.lock().insert(key.clone());
                self.queue.add_after(key.clone(), until(now, end).max(Duration::from_millis(1)));
            }
            TolerationTime::No => self.evict(&pod, &node)?,
        }
        Ok(())
    }
}

fn no_execute(node: &Node) -> Vec<&Taint> {
    let taints = node.spec.iter().flat_map(|s| s.taints.iter().flatten());
    taints.filter(|t| t.effect == NO_EXECUTE).collect()
}

/// A NoExecute taint of a node, and the time since which the node has had it.
struct ActiveTaint<'a> {
    taint: &'a Taint,
    since: Timestamp,
}

/// The time at which each NoExecute taint was first seen, by node and key. `timeAdded` is optional, and kubectl never
/// sets it.
#[derive(Default)]
struct TaintTimes(HashMap<String, HashMap<String, Timestamp>>);

impl TaintTimes {
    /// Returns the time since which a taint has been on the node: `timeAdded`, or the time it was first seen if
    /// `timeAdded` is absent or later.
    fn since(&mut self, node: &str, taint: &Taint, now: Timestamp) -> Timestamp {
        let of_node = self.0.entry(node.to_owned()).or_default();
        let seen = *of_node.entry(taint.key.clone()).or_insert(now);
        taint.time_added.as_ref().map_or(seen, |added| added.0.min(seen))
    }

    /// Drops the taints that a node no longer has; the time of one that returns starts over.
    fn retain(&mut self, node: &str, taints: &[Taint]) {
        if taints.is_empty() {
            self.0.remove(node);
        } else if let Some(of_node) = self.0.get_mut(node) {
            of_node.retain(|key, _| taints.iter().any(|taint| taint.key == *key));
        }
    }
}

/// Returns the time at which a pod was bound to its node.
fn placed(pod: &Pod) -> Timestamp {
    let scheduled = condition(pod, POD_SCHEDULED).filter(|condition| condition.is(ConditionStatus::True));
    let scheduled = scheduled.and_then(|condition| condition.last_transition_time.as_ref());
    scheduled.max(pod.metadata.creation_timestamp.as_ref()).map_or(Timestamp::MIN, |at| at.0)
}

/// Returns the time for which a pod tolerates the taints. Every taint must be tolerated. For each taint, the first
/// toleration that covers it decides: its seconds count from the time when both the taint and the pod were on the node.
/// The earliest end applies.
fn tolerated(
    taints: &[ActiveTaint<'_>],
    tolerations: &[Toleration],
    placed: Timestamp,
    now: Timestamp,
) -> TolerationTime {
    let mut end: Option<Timestamp> = None;
    for ActiveTaint { taint, since } in taints {
        let Some(tolerating) = tolerations.iter().find(|t| tolerates(t, taint)) else {
            return TolerationTime::No;
        };
        if let Some(seconds) = tolerating.toleration_seconds {
            let seconds = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
            let until = saturating_after(placed.max(*since), seconds);
            end = Some(end.map_or(until, |end| end.min(until)));
        }
    }
    match end {
        None => TolerationTime::Forever,
        Some(end) if end <= now => TolerationTime::No,
        Some(end) => TolerationTime::Until(end),
    }
}

impl Evictions {
    fn node_changed(&self, change: &Change) {
        let taints = |object: &object::Object| -> Vec<Taint> {
            object.get::<Node>().map(|n| no_execute(n).into_iter().cloned().collect()).unwrap_or_default()
        };
        let before = change.previous.as_ref().map(|p| taints(p)).unwrap_or_default();
        let is_deleted = change.kind == ChangeKind::Deleted;
        let after = if is_deleted { Vec::new() } else { taints(&change.object) };
        if !is_deleted {
            // The time counts from now, even if the queue is slow.
            self.record_taints(change.object.name(), &after);
        }
        self.first_seen.lock().retain(change.object.name(), &after);
        if !is_deleted && before != after {
            for pod in self.pods.on_node(change.object.name()) {
                self.queue.add(pod.key());
            }
        }
    }

    fn record_taints(&self, node: &str, taints: &[Taint]) {
        let (now, mut first_seen) = (self.api.clock().now(), self.first_seen.lock());
        for taint in taints {
            first_seen.since(node, taint, now);
        }
    }

    fn active_taints<'a>(&self, node: &'a SharedObject<Node>, now: Timestamp) -> Vec<ActiveTaint<'a>> {
        let mut first_seen = self.first_seen.lock();
        let standing = |taint| ActiveTaint { taint, since: first_seen.since(node.name(), taint, now) };
        no_execute(node).into_iter().map(standing).collect()
    }

    fn pod_changed(&self, change: &Change) {
        let Some(pod) = change.object.get::<Pod>() else { return };
        let Some(node) = node_name(pod).and_then(|name| self.nodes.get(&Key::new("", name))) else { return };
        if !no_execute(&node).is_empty() || self.counting_down.lock().contains(&change.object.key()) {
            self.queue.add(change.object.key());
        }
    }

    fn evict(&self, pod: &SharedObject<Pod>, node: &SharedObject<Node>) -> Result<(), ApiError> {
        self.counting_down.lock().remove(&pod.key());
        let message = format!("Marking for deletion Pod {}", pod.key());
        self.recorder.normal(pod.object(), "TaintManagerEviction", message);
        let disruption = Disruption {
            cause: DisruptionReason::TaintManager,
            message: &eviction_message(node),
            fails: false,
            grace_seconds: None,
        };
        disrupt(&self.api, pod, &disruption).map(drop)
    }
}

/// Returns the reason of an eviction. If the node is unreachable, the message names that as the cause, and that the
/// pod's end cannot be confirmed (SAFE-4).
fn eviction_message(node: &SharedObject<Node>) -> String {
    let reason = "Taint manager: deleting due to NoExecute taint";
    let cut = no_execute(node).into_iter().find(|taint| taint.key == UNREACHABLE);
    let Some(taint) = cut.filter(|_| !is_out_of_service(node)) else { return reason.to_owned() };
    let since = taint.time_added.as_ref().map(|since| format!(" since {}", since.0)).unwrap_or_default();
    format!(
        "{reason} {UNREACHABLE}: node {} is unreachable{since}, and the pod may still run there until the node \
         returns, is deleted or is fenced",
        node.name()
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_stays_as_long_as_it_tolerates_every_taint_node_2() {
        let taint = |key: &str, added: &str| -> Taint {
            serde_json::from_value(json!({"key": key, "effect": "NoExecute", "timeAdded": added})).unwrap()
        };
        let (a, b) = (taint("a", "2026-11-21T00:00:00Z"), taint("b", "2026-11-21T00:01:00Z"));
        let now: Timestamp = "2026-11-21T00:02:00Z".parse().unwrap();
        let at = |text: &str| TolerationTime::Until(text.parse().unwrap());
        let for_key = |key: &str, seconds: Option<i64>| {
            json!({"key": key, "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": seconds})
        };
        for (rule, taints, tolerations, expected) in [
            ("untainted", vec![], json!([]), TolerationTime::Forever),
            ("intolerant", vec![&a], json!([]), TolerationTime::No),
            ("tolerant of one", vec![&a, &b], json!([for_key("a", None)]), TolerationTime::No),
            ("tolerant", vec![&a], json!([for_key("a", None)]), TolerationTime::Forever),
            ("for a while", vec![&a], json!([for_key("a", Some(300))]), at("2026-11-21T00:05:00Z")),
            (
                "the first that covers a taint counts",
                vec![&a],
                json!([for_key("a", None), for_key("a", Some(0))]),
                TolerationTime::Forever,
            ),
            ("not at all", vec![&a], json!([for_key("a", Some(-1))]), TolerationTime::No),
            ("time is up", vec![&a], json!([for_key("a", Some(120))]), TolerationTime::No),
            (
                "the shortest counts",
                vec![&a, &b],
                json!([for_key("a", Some(300)), for_key("b", Some(100))]),
                at("2026-11-21T00:02:40Z"),
            ),
        ] {
            let tolerations: Vec<Toleration> = serde_json::from_value(tolerations).unwrap();
            let standing: Vec<ActiveTaint<'_>> = taints
                .iter()
                .map(|taint| ActiveTaint { taint, since: taint.time_added.as_ref().unwrap().0 })
                .collect();
            assert_eq!(tolerated(&standing, &tolerations, Timestamp::MIN, now), expected, "{rule}");
        }
        let standing = [ActiveTaint { taint: &a, since: a.time_added.as_ref().unwrap().0 }];
        let minute: Vec<Toleration> = serde_json::from_value(json!([for_key("a", Some(60))])).unwrap();
        let placed = "2026-11-21T00:01:50Z".parse().unwrap();
        assert_eq!(
            tolerated(&standing, &minute, placed, now),
            at("2026-11-21T00:02:50Z"),
            "a pod that comes to a tainted node has its whole time"
        );
    }

    #[test]
    fn a_taint_counts_from_when_it_was_added_or_first_seen_node_2() {
        let second = |second: i64| Timestamp::from_second(second).unwrap();
        let taint = |key: &str, added: Option<i64>| Taint {
            key: key.into(),
            effect: NO_EXECUTE.into(),
            value: None,
            time_added: added.map(|at| base::clock::time(second(at))),
        };
        let mut seen = TaintTimes::default();
        assert_eq!(seen.since("n1", &taint("a", None), second(100)), second(100));
        assert_eq!(
            seen.since("n1", &taint("a", None), second(130)),
            second(100),
            "a later pass changes nothing"
        );
        assert_eq!(seen.since("n2", &taint("a", None), second(130)), second(130), "each node has its own");
        assert_eq!(seen.since("n1", &taint("b", Some(50)), second(130)), second(50));
        assert_eq!(
            seen.since("n1", &taint("c", Some(900)), second(130)),
            second(130),
            "a time ahead is none"
        );
        seen.retain("n1", &[taint("b", None)]);
        assert_eq!(
            seen.since("n1", &taint("a", None), second(200)),
            second(200),
            "a taint that returned is new"
        );
        seen.retain("n1", &[]);
        seen.retain("n2", &[]);
        assert!(seen.0.is_empty(), "nothing is left of nodes without taints");
    }
}
