//! The conditions that follow from missing heartbeats, and the taints that follow from conditions.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};

use base::clock::time;
use object::conditions::{self, Condition, ConditionStatus};
use object::node::condition_is;
use object::taint::effect::{NO_EXECUTE, NO_SCHEDULE};
use object::well_known::{condition, taint};

/// The conditions that only a living kubelet can report.
const KUBELET_CONDITIONS: [&str; 4] =
    [condition::READY, condition::MEMORY_PRESSURE, condition::DISK_PRESSURE, condition::PID_PRESSURE];

/// Condition, status and the key of the resulting NoSchedule taint.
const CONDITION_TAINTS: [(&str, ConditionStatus, &str); 6] = [
    (condition::READY, ConditionStatus::False, taint::NOT_READY),
    (condition::READY, ConditionStatus::Unknown, taint::UNREACHABLE),
    (condition::MEMORY_PRESSURE, ConditionStatus::True, taint::MEMORY_PRESSURE),
    (condition::DISK_PRESSURE, ConditionStatus::True, taint::DISK_PRESSURE),
    (condition::PID_PRESSURE, ConditionStatus::True, taint::PID_PRESSURE),
    (condition::NETWORK_UNAVAILABLE, ConditionStatus::True, taint::NETWORK_UNAVAILABLE),
];

/// Sets every condition that the kubelet no longer reports to Unknown.
pub(super) fn mark_unknown(conditions: &mut Vec<NodeCondition>, created: Option<Timestamp>, now: Timestamp) {
    for type_ in KUBELET_CONDITIONS {
        let current = conditions::get(Some(conditions), type_);
        if current.is_some_and(|c| c.is(ConditionStatus::Unknown)) {
            continue;
        }
        let (reason, message, heartbeat) = match current {
            Some(c) => {
                let heartbeat = c.last_heartbeat_time.clone();
                ("NodeStatusUnknown", "Kubelet stopped posting node status.", heartbeat)
            }
            None => ("NodeStatusNeverUpdated", "Kubelet never posted node status.", created.map(time)),
        };
        let unknown = NodeCondition {
            last_heartbeat_time: heartbeat,
            ..conditions::new(type_, ConditionStatus::Unknown, reason, message, time(now))
        };
        conditions::set(conditions, unknown);
    }
}

/// Returns the node's desired taints: those of others unchanged, and this controller's as the node's conditions and
/// `unschedulable` require.
///
/// This controller's NoExecute taint follows the Ready condition once it exists. A new one is added only when the
/// zone's rate allows ([`with_eviction_taint`]).
pub(super) fn taints(node: &Node, now: Timestamp) -> Vec<Taint> {
    let mut desired: Vec<(&str, &str)> = CONDITION_TAINTS
        .iter()
        .filter(|(type_, status, _)| condition_is(node, type_, *status))
        .map(|(_, _, key)| (*key, NO_SCHEDULE))
        .collect();
    if is_evicting(node) {
        desired.extend(eviction_taint(node).map(|key| (key, NO_EXECUTE)));
    }
    if node.spec.as_ref().and_then(|s| s.unschedulable) == Some(true) {
        desired.push((taint::UNSCHEDULABLE, NO_SCHEDULE));
    }
    let is_desired = |t: &Taint| desired.iter().any(|(key, effect)| t.key == *key && t.effect == *effect);
    let mut taints: Vec<Taint> =
        current(node).iter().filter(|t| !is_managed(t) || is_desired(t)).cloned().collect();
    for (key, effect) in desired {
        add(&mut taints, key, effect, now);
    }
    taints
}

/// Returns the node's taints once its pods are to be evicted.
pub(super) fn with_eviction_taint(node: &Node, now: Timestamp) -> Vec<Taint> {
    let mut taints = current(node).to_vec();
    if let Some(key) = eviction_taint(node) {
        add(&mut taints, key, NO_EXECUTE, now);
    }
    taints
}

/// Returns the node's taints without a NoExecute taint, for the time when all nodes are unreachable: the fault is then
/// probably in this controller's own connection.
pub(super) fn without_eviction_taint(node: &Node) -> Vec<Taint> {
    current(node).iter().filter(|t| !is_eviction_taint(t)).cloned().collect()
}

/// Returns true if the node's pods should be evicted as soon as its zone's rate allows.
pub(super) fn should_evict(node: &Node) -> bool {
    eviction_taint(node).is_some() && !is_evicting(node)
}

/// Returns the reason and message of the Ready condition of pods on a node that is not Ready (SAFE-4).
pub(super) fn of_pods(node: &Node) -> (&'static str, String) {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    if condition_is(node, condition::READY, ConditionStatus::Unknown) {
        let message =
            format!("node {name} is unreachable: its kubelet does not report, and the pod may still run");
        return ("NodeUnreachable", message);
    }
    ("NodeNotReady", format!("node {name} is not ready"))
}

/// Returns the key of the NoExecute taint for the node's Ready condition.
fn eviction_taint(node: &Node) -> Option<&'static str> {
    let ready = |status| condition_is(node, condition::READY, status);
    if ready(ConditionStatus::False) {
        Some(taint::NOT_READY)
    } else if ready(ConditionStatus::Unknown) {
        Some(taint::UNREACHABLE)
    } else {
        None
    }
}

fn is_evicting(node: &Node) -> bool {
    current(node).iter().any(is_eviction_taint)
}

fn is_eviction_taint(taint: &Taint) -> bool {
    taint.effect == NO_EXECUTE && [taint::NOT_READY, taint::UNREACHABLE].contains(&taint.key.as_str())
}

fn current(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|s| s.taints.as_deref()).unwrap_or_default()
}

fn add(taints: &mut Vec<Taint>, key: &str, effect: &str, now: Timestamp) {
    if !taints.iter().any(|t| t.key == key && t.effect == effect) {
        let time_added = Some(time(now));
        taints.push(Taint { key: key.into(), effect: effect.into(), value: None, time_added });
    }
}

fn is_managed(taint: &Taint) -> bool {
    let by_condition = CONDITION_TAINTS.iter().any(|(_, _, key)| taint.key == *key);
    match taint.effect.as_str() {
        NO_SCHEDULE => by_condition || taint.key == taint::UNSCHEDULABLE,
        _ => is_eviction_taint(taint),
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "tables of JSON read better without borrows")]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use object::well_known::taint::{NOT_READY, PREFIX, UNREACHABLE, UNSCHEDULABLE};

    fn node(conditions: Value, spec: Value) -> Node {
        serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": spec,
            "status": {"conditions": conditions}}))
        .unwrap()
    }

    #[test]
    fn conditions_and_cordon_become_taints_node_2() {
        let now: Timestamp = "2026-11-21T00:00:00Z".parse().unwrap();
        let foreign = json!({"key": "mine", "effect": "NoExecute"});
        let old = json!({"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": "2026-11-20T00:00:00Z"});
        let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
        for (rule, conditions, spec, expected) in [
            ("ready", ready("True"), json!({"taints": [foreign, old]}), "mine:NoExecute"),
            ("not ready", ready("False"), json!({}), "not-ready:NoSchedule"),
            (
                "was silent, and is not ready",
                ready("False"),
                json!({"taints": [old]}),
                "not-ready:NoSchedule not-ready:NoExecute",
            ),
            (
                "unreachable, as before",
                ready("Unknown"),
                json!({"taints": [old, foreign]}),
                "unreachable:NoExecute@2026-11-20 mine:NoExecute unreachable:NoSchedule",
            ),
            ("no report yet", json!([]), json!({}), ""),
            (
                "pressure and cordon",
                json!([{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"}]),
                json!({"unschedulable": true}),
                "disk-pressure:NoSchedule unschedulable:NoSchedule",
            ),
            (
                "uncordoned",
                ready("True"),
                json!({"taints": [{"key": UNSCHEDULABLE, "effect": "NoSchedule"}]}),
                "",
            ),
        ] {
            assert_eq!(text(&taints(&node(conditions, spec), now), now), expected, "{rule}");
        }
    }

    fn text(taints: &[Taint], now: Timestamp) -> String {
        let one = |t: &Taint| {
            let key = t.key.trim_start_matches(PREFIX);
            let before = t.time_added.as_ref().filter(|at| at.0 < now);
            let at = before.map(|at| format!("@{}", &at.0.to_string()[..10])).unwrap_or_default();
            format!("{key}:{}{at}", t.effect)
        };
        taints.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pods_leave_a_node_in_its_turn_or_are_let_stay_node_2() {
        let now: Timestamp = "2026-11-21T00:00:00Z".parse().unwrap();
        let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
        let held = json!({"taints": [{"key": NOT_READY, "effect": "NoSchedule"}]});
        let driven = json!({"taints": [{"key": NOT_READY, "effect": "NoSchedule"},
            {"key": NOT_READY, "effect": "NoExecute"}, {"key": "mine", "effect": "NoExecute"}]});
        for (conditions, spec, due, then) in [
            (ready("False"), &held, true, "not-ready:NoSchedule not-ready:NoExecute"),
            (ready("Unknown"), &json!({}), true, "unreachable:NoExecute"),
            (ready("False"), &driven, false, "not-ready:NoSchedule not-ready:NoExecute mine:NoExecute"),
            (ready("True"), &json!({}), false, ""),
            (json!([]), &json!({}), false, ""),
        ] {
            let node = node(conditions, spec.clone());
            assert_eq!(should_evict(&node), due);
            assert_eq!(text(&with_eviction_taint(&node, now), now), then);
        }
        assert_eq!(
            text(&without_eviction_taint(&node(ready("False"), driven)), now),
            "not-ready:NoSchedule mine:NoExecute"
        );
    }

    #[test]
    fn a_silent_node_is_unknown_in_everything_it_vouched_for_node_2() {
        let now: Timestamp = "2026-11-21T00:01:00Z".parse().unwrap();
        let conditions = json!([{"type": "Ready", "status": "True", "reason": "KubeletReady",
            "lastHeartbeatTime": "2026-11-21T00:00:00Z"}, {"type": "NetworkUnavailable", "status": "False"}]);
        let mut conditions = node(conditions, json!({})).status.unwrap().conditions.unwrap();
        mark_unknown(&mut conditions, None, now);
        let actual: Vec<String> = conditions
            .iter()
            .map(|c| format!("{}={} {}", c.type_, c.status, c.reason.as_deref().unwrap_or_default()))
            .collect();
        assert_eq!(
            actual,
            [
                "Ready=Unknown NodeStatusUnknown",
                "NetworkUnavailable=False ",
                "MemoryPressure=Unknown NodeStatusNeverUpdated",
                "DiskPressure=Unknown NodeStatusNeverUpdated",
                "PIDPressure=Unknown NodeStatusNeverUpdated"
            ]
        );
        let before = conditions.clone();
        mark_unknown(&mut conditions, None, now);
        assert_eq!(conditions, before);
    }
}
