//! The data about a pending pod that any cluster has: kube-scheduler's message, split into its reasons.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};

use base::sort::SliceOrder;
use console_data::rows::event::{count, last_seen};

/// A message of the scheduler, and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SchedulerMessage {
    pub(crate) message: String,
    /// `FailedScheduling event`, or `PodScheduled condition`.
    pub(crate) source: &'static str,
    /// Time of the last occurrence.
    pub(crate) at: Option<Timestamp>,
    /// Number of occurrences.
    pub(crate) times: i32,
}

/// A parsed message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reasons {
    /// The number of nodes in the message.
    pub(crate) nodes: Option<u64>,
    /// The reasons with their number of nodes, most nodes first; no number if the pod as a whole was refused.
    pub(crate) against: Vec<(Option<u64>, String)>,
    /// The part about preemption.
    pub(crate) preemption: String,
}

/// Returns the newest message of the pod's events and its condition.
pub(crate) fn scheduler_message(pod: &Pod, events: &[&Event]) -> Option<SchedulerMessage> {
    let event = events.iter().find(|event| event.reason.as_deref() == Some("FailedScheduling"));
    let event = event.map(|event| SchedulerMessage {
        message: event.message.clone().unwrap_or_default(),
        source: "FailedScheduling event",
        at: last_seen(event),
        times: count(event),
    });
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let condition =
        conditions.into_iter().flatten().find(|c| c.type_ == "PodScheduled" && c.status != "True");
    let condition = condition.map(|condition| SchedulerMessage {
        message: condition.message.clone().unwrap_or_default(),
        source: "PodScheduled condition",
        at: condition.last_transition_time.as_ref().map(|time| time.0),
        times: 1,
    });
    // Events expire after an hour; the condition stays.
    event.or(condition)
}

/// Parses a message: `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable. preemption: …`.
pub(crate) fn reasons(message: &str) -> Reasons {
    let (head, preemption) = message.split_once(" preemption: ").unwrap_or((message, ""));
    let preemption = preemption.trim().to_owned();
    let Some((available, list)) = head.split_once(" nodes are available: ") else {
        let whole = head.trim().trim_end_matches('.');
        let against = if whole.is_empty() { Vec::new() } else { vec![(None, whole.to_owned())] };
        return Reasons { nodes: None, against, preemption };
    };
    let nodes = available.rsplit_once('/').and_then(|(_, all)| all.parse().ok());
    let list = list.trim().trim_end_matches('.');
    let mut against: Vec<(Option<u64>, String)> = Vec::new();
    for part in list.split(", ") {
        let counted = part.split_once(' ').and_then(|(number, reason)| Some((number.parse().ok()?, reason)));
        match counted {
            Some((number, reason)) => against.push((Some(number), reason.to_owned())),
            // A part without a number continues the preceding reason, which contains a comma.
            None => match against.last_mut() {
                Some((_, reason)) => *reason = format!("{reason}, {part}"),
                None => against.push((None, part.to_owned())),
            },
        }
    }
    against.order_by_key(|(number, _)| std::cmp::Reverse(number.unwrap_or(u64::MAX)));
    Reasons { nodes, against, preemption }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kube_schedulers_messages_are_taken_apart_con_14() {
        for (message, nodes, against, preemption) in [
            (
                "0/5 nodes are available: 1 node(s) had untolerated taint {k: v}, 4 Insufficient cpu. preemption: \
                 0/5 nodes are available: 5 Preemption is not helpful for scheduling.",
                Some(5),
                vec![(Some(4), "Insufficient cpu"), (Some(1), "node(s) had untolerated taint {k: v}")],
                "0/5 nodes are available: 5 Preemption is not helpful for scheduling.",
            ),
            (
                "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
                Some(3),
                vec![(None, "pod has unbound immediate PersistentVolumeClaims")],
                "",
            ),
            (
                "0/2 nodes are available: 2 node(s) did not a, b and c.",
                Some(2),
                vec![(Some(2), "node(s) did not a, b and c")],
                "",
            ),
            (
                "no nodes available to schedule pods",
                None,
                vec![(None, "no nodes available to schedule pods")],
                "",
            ),
            ("", None, vec![], ""),
        ] {
            let found = reasons(message);
            let listed: Vec<(Option<u64>, &str)> =
                found.against.iter().map(|(number, reason)| (*number, reason.as_str())).collect();
            assert_eq!(
                (found.nodes, listed, found.preemption.as_str()),
                (nodes, against, preemption),
                "{message}"
            );
        }
    }
}
