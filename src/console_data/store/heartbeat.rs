//! Detects node updates that are heartbeats only. Every node sends them constantly, and no table shows them.

use k8s_openapi::api::core::v1::Node;

/// Reports whether only the heartbeat times of the conditions differ.
pub(super) fn is_heartbeat(before: &Node, after: &Node) -> bool {
    let mut beat = before.clone();
    beat.metadata.resource_version.clone_from(&after.metadata.resource_version);
    let before = beat.status.as_mut().and_then(|status| status.conditions.as_mut()).into_iter().flatten();
    let after_conditions = after.status.as_ref().and_then(|status| status.conditions.as_ref());
    for (before, after) in before.zip(after_conditions.into_iter().flatten()) {
        before.last_heartbeat_time.clone_from(&after.last_heartbeat_time);
    }
    beat == *after
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_heartbeat_is_one_con_1() {
        let node = |revision: &str, beat: &str, ready: &str, cpu: &str| -> Node {
            serde_json::from_value(json!({"metadata": {"name": "n", "uid": "n", "resourceVersion": revision},
                "status": {"capacity": {"cpu": cpu}, "conditions": [
                    {"type": "MemoryPressure", "status": "False", "lastHeartbeatTime": beat},
                    {"type": "Ready", "status": ready, "lastHeartbeatTime": beat,
                        "lastTransitionTime": "2026-05-01T12:00:00Z"}]}}))
            .unwrap()
        };
        let (noon, later) = ("2026-05-01T12:00:00Z", "2026-05-01T12:00:10Z");
        let before = node("1", noon, "True", "4");
        let mut fewer = node("2", later, "True", "4");
        fewer.status.as_mut().unwrap().conditions.as_mut().unwrap().pop();
        for (after, expected) in [
            (node("2", later, "True", "4"), true),
            (node("2", noon, "True", "4"), true),
            (node("2", later, "Unknown", "4"), false),
            (node("2", later, "True", "8"), false),
            (fewer.clone(), false),
        ] {
            assert_eq!(is_heartbeat(&before, &after), expected, "{after:?}");
        }
        assert!(!is_heartbeat(&fewer, &before));
    }
}
