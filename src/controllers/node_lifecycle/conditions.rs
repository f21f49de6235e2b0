//! What a node's silence makes of its conditions, and what its conditions make of its taints.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};

use crate::base::clock::time;
use crate::object::node::condition_status;
use crate::object::taint::effect::{NO_EXECUTE, NO_SCHEDULE};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The conditions that only a living kubelet can vouch for.
const VOUCHED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Condition, status and the key of the NoSchedule taint they bring.
const TAINTING: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];

/// Makes every condition Unknown that the kubelet no longer vouches for.
pub(super) fn fall_silent(conditions: &mut Vec<NodeCondition>, created: Option<Timestamp>, now: Timestamp) {
    for type_ in VOUCHED {
        match conditions.iter_mut().find(|c| c.type_ == type_) {
            Some(condition) if condition.status == "Unknown" => {}
            Some(condition) => {
                condition.status = "Unknown".into();
                condition.reason = Some("NodeStatusUnknown".into());
                condition.message = Some("Kubelet stopped posting node status.".into());
                condition.last_transition_time = Some(time(now));
            }
            None => conditions.push(NodeCondition {
                type_: type_.into(),
                status: "Unknown".into(),
                reason: Some("NodeStatusNeverUpdated".into()),
                message: Some("Kubelet never posted node status.".into()),
                last_heartbeat_time: created.map(time),
                last_transition_time: Some(time(now)),
            }),
        }
    }
}

/// The node's taints as they should be now: those of others as they are, ours by its conditions and its cordon.
///
/// A NoExecute taint of ours goes with its reason, or changes with it; a new one comes only in the node's turn
/// ([`executed`]).
pub(super) fn taints(node: &Node, now: Timestamp) -> Vec<Taint> {
    let mut wanted: Vec<(&str, &str)> = TAINTING
        .iter()
        .filter(|(type_, status, _)| condition_status(node, type_) == Some(status))
        .map(|(_, _, key)| (*key, NO_SCHEDULE))
        .collect();
    if is_driven_away(node) {
        wanted.extend(driving(node).map(|key| (key, NO_EXECUTE)));
    }
    if node.spec.as_ref().and_then(|s| s.unschedulable) == Some(true) {
        wanted.push((UNSCHEDULABLE, NO_SCHEDULE));
    }
    let is_wanted = |t: &Taint| wanted.iter().any(|(key, effect)| t.key == *key && t.effect == *effect);
    let mut taints: Vec<Taint> =
        current(node).iter().filter(|t| !is_ours(t) || is_wanted(t)).cloned().collect();
    for (key, effect) in wanted {
        add(&mut taints, key, effect, now);
    }
    taints
}

/// The node's taints when it is its turn that pods leave it.
pub(super) fn executed(node: &Node, now: Timestamp) -> Vec<Taint> {
    let mut taints = current(node).to_vec();
    if let Some(key) = driving(node) {
        add(&mut taints, key, NO_EXECUTE, now);
    }
    taints
}

/// The node's taints when its silence means nothing, since everybody is silent.
pub(super) fn pardoned(node: &Node) -> Vec<Taint> {
    current(node).iter().filter(|t| !drives_away(t)).cloned().collect()
}

/// Whether pods should leave the node, in its turn.
pub(super) fn should_be_driven_away(node: &Node) -> bool {
    driving(node).is_some() && !is_driven_away(node)
}

/// The key of the NoExecute taint that the node's Ready condition brings.
fn driving(node: &Node) -> Option<&'static str> {
    match condition_status(node, "Ready")? {
        "False" => Some(NOT_READY),
        "Unknown" => Some(UNREACHABLE),
        _ => None,
    }
}

fn is_driven_away(node: &Node) -> bool {
    current(node).iter().any(drives_away)
}

fn drives_away(taint: &Taint) -> bool {
    taint.effect == NO_EXECUTE && [NOT_READY, UNREACHABLE].contains(&taint.key.as_str())
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

fn is_ours(taint: &Taint) -> bool {
    let by_condition = TAINTING.iter().any(|(_, _, key)| taint.key == *key);
    match taint.effect.as_str() {
        NO_SCHEDULE => by_condition || taint.key == UNSCHEDULABLE,
        _ => drives_away(taint),
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "tables of JSON read better without borrows")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

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
            assert_eq!(told(&taints(&node(conditions, spec), now), now), expected, "{rule}");
        }
    }

    fn told(taints: &[Taint], now: Timestamp) -> String {
        let one = |t: &Taint| {
            let key = t.key.trim_start_matches("node.kubernetes.io/");
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
            assert_eq!(should_be_driven_away(&node), due);
            assert_eq!(told(&executed(&node, now), now), then);
        }
        assert_eq!(
            told(&pardoned(&node(ready("False"), driven)), now),
            "not-ready:NoSchedule mine:NoExecute"
        );
    }

    #[test]
    fn a_silent_node_is_unknown_in_everything_it_vouched_for_node_2() {
        let now: Timestamp = "2026-11-21T00:01:00Z".parse().unwrap();
        let conditions = json!([{"type": "Ready", "status": "True", "reason": "KubeletReady",
            "lastHeartbeatTime": "2026-11-21T00:00:00Z"}, {"type": "NetworkUnavailable", "status": "False"}]);
        let mut conditions = node(conditions, json!({})).status.unwrap().conditions.unwrap();
        fall_silent(&mut conditions, None, now);
        let told: Vec<String> = conditions
            .iter()
            .map(|c| format!("{}={} {}", c.type_, c.status, c.reason.as_deref().unwrap_or_default()))
            .collect();
        assert_eq!(
            told,
            [
                "Ready=Unknown NodeStatusUnknown",
                "NetworkUnavailable=False ",
                "MemoryPressure=Unknown NodeStatusNeverUpdated",
                "DiskPressure=Unknown NodeStatusNeverUpdated",
                "PIDPressure=Unknown NodeStatusNeverUpdated"
            ]
        );
        let before = conditions.clone();
        fall_silent(&mut conditions, None, now);
        assert_eq!(conditions, before);
    }
}
