//! Changes of the nodes since the scheduler's last attempt. The scheduler tries again only when a change may help, so
//! that the verdict does not reflect a later cordon.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use k8s_openapi::api::core::v1::{Node, Pod};

use super::verdict::{NodeVerdict, Verdict};
use base::sort::CollectMap;
use console_data::rows::node::is_cordoned;
use object::well_known::taint::UNSCHEDULABLE;

/// The filter that refuses cordoned nodes.
const CORDON: &str = "NodeUnschedulable";
/// A hash of the labels, taints and resources of each node, by its name, at the time of a verdict.
pub(super) type NodeFingerprints = BTreeMap<String, u64>;

/// Returns the fingerprints of the current nodes.
pub(super) fn fingerprints<'a>(nodes: impl Iterator<Item = &'a Node>) -> NodeFingerprints {
    nodes.filter_map(|node| Some((node.metadata.name.clone()?, facts(node)))).collect_map()
}

/// Returns a hash of the node's fields that the scheduler reads, without its cordon.
fn facts(node: &Node) -> u64 {
    let mut hasher = DefaultHasher::new();
    node.metadata.labels.hash(&mut hasher);
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    for taint in taints.filter(|taint| taint.key != UNSCHEDULABLE) {
        (&taint.key, &taint.value, &taint.effect).hash(&mut hasher);
    }
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    for (resource, amount) in allocatable.into_iter().flatten() {
        (resource, &amount.0).hash(&mut hasher);
    }
    hasher.finish()
}

/// Describes the changes of the nodes, a few words for each node.
pub(super) fn changes<'a>(
    verdict: &Verdict,
    pod: Option<&Pod>,
    before: &NodeFingerprints,
    nodes: impl Iterator<Item = &'a Node>,
) -> Vec<String> {
    if verdict.nodes.is_empty() {
        return Vec::new();
    }
    let verdicts: BTreeMap<&str, &NodeVerdict> =
        verdict.nodes.iter().map(|node| (node.name.as_str(), node)).collect_map();
    let mut there = NodeFingerprints::new();
    let mut found = Vec::new();
    for node in nodes {
        let Some(name) = node.metadata.name.as_deref() else { continue };
        there.insert(name.to_owned(), facts(node));
        let Some(judged) = verdicts.get(name) else {
            found.push(format!("{name} is new"));
            continue;
        };
        let was_cordoned = judged.refusals.iter().any(|refusal| refusal.plugin == CORDON);
        match (was_cordoned, is_cordoned(node)) {
            (false, true) if !pod.is_some_and(tolerates_cordons) => {
                found.push(format!("{name} was cordoned"));
            }
            (true, false) => found.push(format!("{name} was uncordoned")),
            _ if before.get(name).is_some_and(|then| Some(then) != there.get(name)) => {
                found.push(format!("{name} has new labels, taints or capacity"));
            }
            _ => {}
        }
    }
    let deleted = verdicts.keys().filter(|name| !there.contains_key(**name));
    found.extend(deleted.map(|name| format!("{name} is gone")));
    found
}

fn tolerates_cordons(pod: &Pod) -> bool {
    let tolerations = pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten());
    let mut keys = tolerations.map(|toleration| toleration.key.as_deref().unwrap_or_default());
    keys.any(|key| key.is_empty() || key == UNSCHEDULABLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn nodes(list: &Value) -> Vec<Node> {
        serde_json::from_value(list.clone()).unwrap()
    }

    #[test]
    fn a_change_of_nodes_makes_a_verdict_stale_con_9() {
        let verdict: Verdict = serde_json::from_value(json!({
            "attemptedAt": "2026-05-01T12:00:00Z", "message": "",
            "nodes": [{"name": "a"}, {"name": "b", "refusals": [{"plugin": CORDON, "reasons": []}]}],
        }))
        .unwrap();
        let a = json!({"metadata": {"name": "a", "labels": {"k": "v"}}});
        let b = json!({"metadata": {"name": "b"}, "spec": {"unschedulable": true}});
        let then = fingerprints(nodes(&json!([a, b])).iter());
        let tolerant: Pod = serde_json::from_value(
            json!({"metadata": {}, "spec": {"containers": [], "tolerations": [{"operator": "Exists"}]}}),
        )
        .unwrap();
        let cordoned = json!({"metadata": {"name": "a", "labels": {"k": "v"}}, "spec": {"unschedulable": true,
            "taints": [{"key": UNSCHEDULABLE, "effect": "NoSchedule"}]}});
        let heartbeat = json!({"metadata": {"name": "a", "labels": {"k": "v"}, "resourceVersion": "9"},
            "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-05-01T12:00:09Z"}]}});
        let labelled = json!({"metadata": {"name": "a", "labels": {"k": "w"}}});
        let tainted = json!({"metadata": {"name": "a", "labels": {"k": "v"}}, "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}});
        let new = json!({"metadata": {"name": "c"}});
        for (now, pod, expected) in [
            (json!([a, b]), None, vec![]),
            (json!([heartbeat, b]), None, vec![]),
            (json!([cordoned, b]), None, vec!["a was cordoned"]),
            (json!([cordoned, b]), Some(&tolerant), vec![]),
            (json!([a, {"metadata": {"name": "b"}}]), None, vec!["b was uncordoned"]),
            (json!([labelled, b]), None, vec!["a has new labels, taints or capacity"]),
            (json!([tainted, b]), None, vec!["a has new labels, taints or capacity"]),
            (json!([b, new]), None, vec!["c is new", "a is gone"]),
        ] {
            assert_eq!(changes(&verdict, pod, &then, nodes(&now).iter()), expected, "{now}");
        }
    }
}
