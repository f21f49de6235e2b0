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

/// The node's taints as they should be: those of others as they are, ours by its conditions.
pub(super) fn taints(node: &Node, now: Timestamp) -> Vec<Taint> {
    let current: &[Taint] = node.spec.as_ref().and_then(|s| s.taints.as_deref()).unwrap_or_default();
    let mut wanted: Vec<(&str, &str)> = TAINTING
        .iter()
        .filter(|(type_, status, _)| condition_status(node, type_) == Some(status))
        .map(|(_, _, key)| (*key, NO_SCHEDULE))
        .collect();
    let executing: Vec<(&str, &str)> = wanted
        .iter()
        .filter(|(key, _)| [NOT_READY, UNREACHABLE].contains(key))
        .map(|(key, _)| (*key, NO_EXECUTE))
        .collect();
    wanted.extend(executing);
    if node.spec.as_ref().and_then(|s| s.unschedulable) == Some(true) {
        wanted.push((UNSCHEDULABLE, NO_SCHEDULE));
    }
    let is_wanted = |t: &Taint| wanted.iter().any(|(key, effect)| t.key == *key && t.effect == *effect);
    let mut taints: Vec<Taint> = current.iter().filter(|t| !is_ours(t) || is_wanted(t)).cloned().collect();
    for (key, effect) in wanted {
        if !taints.iter().any(|t| t.key == key && t.effect == effect) {
            taints.push(Taint {
                key: key.into(),
                effect: effect.into(),
                value: None,
                time_added: Some(time(now)),
            });
        }
    }
    taints
}

fn is_ours(taint: &Taint) -> bool {
    let by_condition = TAINTING.iter().any(|(_, _, key)| taint.key == *key);
    match taint.effect.as_str() {
        NO_SCHEDULE => by_condition || taint.key == UNSCHEDULABLE,
        NO_EXECUTE => [NOT_READY, UNREACHABLE].contains(&taint.key.as_str()),
        _ => false,
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
            ("not ready", ready("False"), json!({}), "not-ready:NoSchedule not-ready:NoExecute"),
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
            let told: Vec<String> = taints(&node(conditions, spec), now)
                .iter()
                .map(|t| {
                    let key = t.key.trim_start_matches("node.kubernetes.io/");
                    let before = t.time_added.as_ref().filter(|at| at.0 < now);
                    let at = before.map(|at| format!("@{}", &at.0.to_string()[..10])).unwrap_or_default();
                    format!("{key}:{}{at}", t.effect)
                })
                .collect();
            assert_eq!(told.join(" "), expected, "{rule}");
        }
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
