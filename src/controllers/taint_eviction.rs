//! Taint-based eviction: pods leave a node whose NoExecute taints they do not tolerate, or no longer (NODE-2).

use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};
use parking_lot::Mutex;

use super::context::Context;
use api::{Api, ApiError};
use api::{Change, ChangeKind};
use base::clock::{saturating_after, until};
use object::owner::is_terminating;
use object::pod::disruption::Cause;
use object::pod::{is_terminal, node_name};
use object::storage::is_out_of_service;
use object::taint::{effect::NO_EXECUTE, tolerates};
use object::well_known::taint::UNREACHABLE;
use object::{Key, Shared};
use reconcile::{Cache, Disruption, ReconcileError, Reconciler, Recorder, WorkQueue, disrupt};

/// How long a pod may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tolerated {
    /// Nothing drives it away.
    Forever,
    /// It tolerates the taints until then.
    Until(Timestamp),
    /// There is a taint it does not tolerate.
    No,
}

/// Starts the controller.
pub(super) fn start(context: &Context) {
    let queue = context.queue();
    let controller = Evictions {
        api: context.api.clone(),
        pods: context.caches.of(),
        nodes: context.caches.of(),
        counting_down: Mutex::default(),
        recorder: Recorder::new(&context.api, "taint-eviction-controller"),
        queue: queue.clone(),
    };
    context
        .controller(controller, queue)
        .keys_of::<Pod>()
        .watches::<Node, _>(Evictions::node_changed)
        .watches::<Pod, _>(Evictions::pod_changed)
        .run(&context.tasks);
}

struct Evictions {
    api: Api,
    pods: Cache<Pod>,
    nodes: Cache<Node>,
    /// Pods that will have to leave.
    counting_down: Mutex<HashSet<Key>>,
    recorder: Recorder,
    queue: WorkQueue<Key>,
}

impl Reconciler for Evictions {
    type Key = Key;

    fn name(&self) -> &'static str {
        "taint-eviction-controller"
    }

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
        match tolerated(&no_execute(&node), tolerations, now) {
            Tolerated::Forever => {
                if self.counting_down.lock().remove(key) {
                    let message = format!("Cancelling deletion of Pod {key}");
                    self.recorder.normal(pod.object(), "TaintManagerEviction", message);
                }
            }
            Tolerated::Until(end) => {
                self.counting_down.lock().insert(key.clone());
                self.queue.add_after(key.clone(), until(now, end).max(Duration::from_millis(1)));
            }
            Tolerated::No => self.evict(&pod, &node)?,
        }
        Ok(())
    }
}

fn no_execute(node: &Node) -> Vec<&Taint> {
    let taints = node.spec.iter().flat_map(|s| s.taints.iter().flatten());
    taints.filter(|t| t.effect == NO_EXECUTE).collect()
}

/// Every taint must be tolerated, and the first toleration that covers it counts, from when it was added; the
/// pod stays until the first of these times.
fn tolerated(taints: &[&Taint], tolerations: &[Toleration], now: Timestamp) -> Tolerated {
    let mut end: Option<Timestamp> = None;
    for taint in taints {
        let Some(tolerating) = tolerations.iter().find(|t| tolerates(t, taint)) else { return Tolerated::No };
        let added = taint.time_added.as_ref().map_or(now, |t| t.0);
        if let Some(seconds) = tolerating.toleration_seconds {
            let seconds = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
            let until = saturating_after(added, seconds);
            end = Some(end.map_or(until, |end| end.min(until)));
        }
    }
    match end {
        None => Tolerated::Forever,
        Some(end) if end <= now => Tolerated::No,
        Some(end) => Tolerated::Until(end),
    }
}

impl Evictions {
    fn node_changed(&self, change: &Change) {
        let taints = |object: &object::Object| -> Vec<Taint> {
            object.get::<Node>().map(|n| no_execute(n).into_iter().cloned().collect()).unwrap_or_default()
        };
        let before = change.previous.as_ref().map(|p| taints(p)).unwrap_or_default();
        if change.kind != ChangeKind::Deleted && before != taints(&change.object) {
            for pod in self.pods.on_node(change.object.name()) {
                self.queue.add(pod.key());
            }
        }
    }

    fn pod_changed(&self, change: &Change) {
        let Some(pod) = change.object.get::<Pod>() else { return };
        let Some(node) = node_name(pod).and_then(|name| self.nodes.get(&Key::new("", name))) else { return };
        if !no_execute(&node).is_empty() || self.counting_down.lock().contains(&change.object.key()) {
            self.queue.add(change.object.key());
        }
    }

    fn evict(&self, pod: &Shared<Pod>, node: &Shared<Node>) -> Result<(), ApiError> {
        self.counting_down.lock().remove(&pod.key());
        let message = format!("Marking for deletion Pod {}", pod.key());
        self.recorder.normal(pod.object(), "TaintManagerEviction", message);
        let disruption =
            Disruption { cause: Cause::TaintManager, message: &why(node), fails: false, grace_seconds: None };
        disrupt(&self.api, pod, &disruption).map(drop)
    }
}

/// Why a pod is driven away. Where its node is cut off, that is the cause, and the pod's end cannot be known (SAFE-4).
fn why(node: &Shared<Node>) -> String {
    let why = "Taint manager: deleting due to NoExecute taint";
    let cut = no_execute(node).into_iter().find(|taint| taint.key == UNREACHABLE);
    let Some(taint) = cut.filter(|_| !is_out_of_service(node)) else { return why.to_owned() };
    let since = taint.time_added.as_ref().map(|since| format!(" since {}", since.0)).unwrap_or_default();
    format!(
        "{why} {UNREACHABLE}: node {} is cut off{since}, and the pod may still run there until the node returns, is deleted \
         or is fenced",
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
        let at = |text: &str| Tolerated::Until(text.parse().unwrap());
        let for_key = |key: &str, seconds: Option<i64>| {
            json!({"key": key, "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": seconds})
        };
        for (rule, taints, tolerations, expected) in [
            ("untainted", vec![], json!([]), Tolerated::Forever),
            ("intolerant", vec![&a], json!([]), Tolerated::No),
            ("tolerant of one", vec![&a, &b], json!([for_key("a", None)]), Tolerated::No),
            ("tolerant", vec![&a], json!([for_key("a", None)]), Tolerated::Forever),
            ("for a while", vec![&a], json!([for_key("a", Some(300))]), at("2026-11-21T00:05:00Z")),
            (
                "the first that covers a taint counts",
                vec![&a],
                json!([for_key("a", None), for_key("a", Some(0))]),
                Tolerated::Forever,
            ),
            ("not at all", vec![&a], json!([for_key("a", Some(-1))]), Tolerated::No),
            ("time is up", vec![&a], json!([for_key("a", Some(120))]), Tolerated::No),
            (
                "the shortest counts",
                vec![&a, &b],
                json!([for_key("a", Some(300)), for_key("b", Some(100))]),
                at("2026-11-21T00:02:40Z"),
            ),
        ] {
            let tolerations: Vec<Toleration> = serde_json::from_value(tolerations).unwrap();
            assert_eq!(tolerated(&taints, &tolerations, now), expected, "{rule}");
        }
    }
}
