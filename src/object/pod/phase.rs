//! A pod's `status.phase`.

use std::fmt;

use k8s_openapi::api::core::v1::Pod;

use crate::owner::is_terminating;

/// A pod's phase, in the order a pod goes through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Not written by current Kubernetes versions.
    Unknown,
    /// Accepted; not every container has been started yet.
    Pending,
    /// Bound to a node; at least one container runs or will be started again.
    Running,
    /// All containers ended with exit code 0 and will not be started again.
    Succeeded,
    /// All containers ended, at least one with a failure, and will not be started again.
    Failed,
}

impl Phase {
    /// Returns the text of `status.phase`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "Unknown",
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    /// Parses the phase.
    pub fn read(text: &str) -> Self {
        match text {
            "Pending" => Self::Pending,
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            _ => Self::Unknown,
        }
    }

    /// Returns true for a final phase.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl From<Phase> for String {
    fn from(phase: Phase) -> Self {
        phase.as_str().into()
    }
}

/// Returns `status.phase`; a pod without one is pending.
pub fn phase(pod: &Pod) -> Phase {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase.map_or(Phase::Pending, Phase::read)
}

/// Returns true if the pod has succeeded or failed.
pub fn is_terminal(pod: &Pod) -> bool {
    phase(pod).is_terminal()
}

/// Returns true if the pod counts for its owner: it has not ended and is not terminating.
pub fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && !is_terminating(&pod.metadata)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_living_pods_are_active_rs_1() {
        for (status, deleted, expected) in [
            (json!({}), None, (Phase::Pending, true)),
            (json!({"phase": "Pending"}), None, (Phase::Pending, true)),
            (json!({"phase": "Running"}), None, (Phase::Running, true)),
            (json!({"phase": "Running"}), Some("2026-11-21T00:01:00Z"), (Phase::Running, false)),
            (json!({"phase": "Failed"}), None, (Phase::Failed, false)),
            (json!({"phase": "Succeeded"}), None, (Phase::Succeeded, false)),
            (json!({"phase": "Unknown"}), None, (Phase::Unknown, true)),
        ] {
            let pod = json!({"metadata": {"name": "p", "deletionTimestamp": deleted}, "status": status});
            let pod: Pod = serde_json::from_value(pod).unwrap();
            assert_eq!((phase(&pod), is_active(&pod)), expected, "{status}");
        }
    }
}
