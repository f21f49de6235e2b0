//! Decides when to fence a node, by the delays of the StatefulSets that have pods on it: pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;

use base::clock::{saturating_after, until};
use object::conditions;
use object::node::is_ready;
use object::time::read_go_duration;
use object::well_known::condition::READY;

/// The decision about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FenceDecision {
    /// Nothing: it is Ready, or has never reported.
    Leave,
    /// Check again after this time.
    Wait(Duration),
    /// Its time is up, but no other node is Ready: fencing it would not help.
    Alone,
    /// Fence it: its time is up.
    Fence,
}

/// Parses the annotation's value: the time for which a node may be not Ready.
pub(super) fn parse_toleration(text: &str) -> Result<Duration, String> {
    read_go_duration(text).ok_or_else(|| format!("invalid duration \"{text}\"; use, for example, 60s"))
}

/// Decides about a node with this delay.
pub(super) fn verdict(node: &Node, delay: Duration, now: Timestamp, another_is_ready: bool) -> FenceDecision {
    let all = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let Some(ready) = conditions::get(all, READY).filter(|_| !is_ready(node)) else {
        return FenceDecision::Leave;
    };
    // A condition without a time is at least as old as the last heartbeat, and no older than the node.
    let since = ready.last_transition_time.as_ref().or(ready.last_heartbeat_time.as_ref());
    let since = since.or(node.metadata.creation_timestamp.as_ref()).map_or(Timestamp::MIN, |at| at.0);
    let due = saturating_after(since, delay);
    match (now >= due, another_is_ready) {
        (false, _) => FenceDecision::Wait(until(now, due).max(Duration::from_millis(1))),
        (true, false) => FenceDecision::Alone,
        (true, true) => FenceDecision::Fence,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_fenced_when_it_was_not_ready_for_so_long_safe_5() {
        let node = |status: &str| -> Node {
            let condition =
                json!({"type": "Ready", "status": status, "lastTransitionTime": "2026-11-21T00:00:00Z"});
            let conditions = if status.is_empty() { json!([]) } else { json!([condition]) };
            serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"conditions": conditions}}))
                .unwrap()
        };
        let minute = Duration::from_mins(1);
        for (status, at, another, expected) in [
            ("True", "00:10:00", true, FenceDecision::Leave),
            ("", "00:10:00", true, FenceDecision::Leave),
            ("Unknown", "00:00:20", true, FenceDecision::Wait(Duration::from_secs(40))),
            ("Unknown", "00:01:00", true, FenceDecision::Fence),
            ("False", "00:01:00", true, FenceDecision::Fence),
            ("Unknown", "00:01:00", false, FenceDecision::Alone),
        ] {
            let now = format!("2026-11-21T{at}Z").parse().unwrap();
            assert_eq!(verdict(&node(status), minute, now, another), expected, "{status} {at}");
        }
        let at = |text: &str| text.parse().unwrap();
        let timeless = json!({"metadata": {"name": "n", "creationTimestamp": "2026-11-21T00:00:00Z"},
            "status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        let mut timeless: Node = serde_json::from_value(timeless).unwrap();
        let verdict_at = |node: &Node, now: &str| verdict(node, minute, at(now), true);
        let left = FenceDecision::Wait(Duration::from_secs(40));
        assert_eq!(verdict_at(&timeless, "2026-11-21T00:00:20Z"), left, "counts from the node's creation");
        assert_eq!(verdict_at(&timeless, "2026-11-21T00:01:00Z"), FenceDecision::Fence);
        let conditions = timeless.status.as_mut().unwrap().conditions.as_mut().unwrap();
        conditions[0].last_heartbeat_time = Some(base::clock::time(at("2026-11-21T00:10:00Z")));
        assert_eq!(verdict_at(&timeless, "2026-11-21T00:10:20Z"), left, "counts from the last heartbeat");
        assert_eq!(parse_toleration("60s"), Ok(minute));
        assert_eq!(parse_toleration("soon").unwrap_err(), "invalid duration \"soon\"; use, for example, 60s");
    }
}
