//! The STATUS of a pod as kubectl prints it, and the look (glyph and colour class) it gets.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};

/// How something is, coarsely: decides glyph and colour everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Look {
    /// Runs and is ready.
    Running,
    /// Is on its way: pending, creating, starting, not yet ready.
    Pending,
    /// Ended well.
    Succeeded,
    /// Comes and goes: CrashLoopBackOff.
    Crashing,
    /// Ended badly or cannot start.
    Failed,
    /// Is being deleted.
    Terminating,
    /// Nobody knows.
    Unknown,
}

impl Look {
    /// All, in the order the overview shows them.
    pub const ALL: [Self; 7] = [
        Self::Running,
        Self::Pending,
        Self::Succeeded,
        Self::Crashing,
        Self::Failed,
        Self::Terminating,
        Self::Unknown,
    ];

    /// One glyph that says it without colour.
    pub fn glyph(self) -> &'static str {
        match self {
            Self::Running => "●",
            Self::Pending => "◐",
            Self::Succeeded => "✔",
            Self::Crashing => "↻",
            Self::Failed => "✖",
            Self::Terminating => "◌",
            Self::Unknown => "?",
        }
    }

    /// One word that says it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Pending => "Pending",
            Self::Succeeded => "Succeeded",
            Self::Crashing => "CrashLoop",
            Self::Failed => "Failed",
            Self::Terminating => "Terminating",
            Self::Unknown => "Unknown",
        }
    }

    /// Whether someone should look at it.
    pub fn is_fault(self) -> bool {
        matches!(self, Self::Crashing | Self::Failed | Self::Unknown)
    }
}

/// What the columns READY, STATUS and RESTARTS say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodStatus {
    /// Ready containers.
    pub ready: usize,
    /// Containers that count.
    pub total: usize,
    /// STATUS, verbatim as kubectl prints it.
    pub status: String,
    /// Restarts of the containers that count.
    pub restarts: i32,
    /// End of the last run before a restart.
    pub last_restart: Option<Timestamp>,
    /// Its look.
    pub look: Look,
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Follows kubectl's printer (`printPod` in pkg/printers/internalversion) rule by rule.
pub fn of(pod: &Pod) -> PodStatus {
    let spec = pod.spec.as_ref();
    let status = pod.status.as_ref();
    let phase = status.and_then(|s| s.phase.as_deref()).unwrap_or("Unknown");
    let mut reason =
        status.and_then(|s| s.reason.clone()).filter(|r| !r.is_empty()).unwrap_or_else(|| phase.into());
    let init_specs = spec.and_then(|s| s.init_containers.as_deref()).unwrap_or_default();
    let sidecar = |name: &str| init_specs.iter().any(|c| c.name == name && is_sidecar(c));

    if let Some(conditions) = status.and_then(|s| s.conditions.as_ref())
        && conditions
            .iter()
            .any(|c| c.type_ == "PodScheduled" && c.reason.as_deref() == Some("SchedulingGated"))
    {
        reason = "SchedulingGated".into();
    }

    let mut total =
        spec.map_or(0, |s| s.containers.len()) + init_specs.iter().filter(|c| is_sidecar(c)).count();
    let mut ready = 0;
    let mut restarts = 0;
    let mut sidecar_restarts = 0;
    let mut last_restart: Option<Timestamp> = None;
    let mut last_sidecar_restart: Option<Timestamp> = None;
    let mut initializing = false;

    let inits = status.and_then(|s| s.init_container_statuses.as_deref()).unwrap_or_default();
    for (index, container) in inits.iter().enumerate() {
        restarts += container.restart_count;
        last_restart = last_restart.max(last_end(container));
        let is_sidecar = sidecar(&container.name);
        if is_sidecar {
            sidecar_restarts += container.restart_count;
            last_sidecar_restart = last_sidecar_restart.max(last_end(container));
        }
        let state = container.state.as_ref();
        let terminated = state.and_then(|s| s.terminated.as_ref());
        let waiting = state.and_then(|s| s.waiting.as_ref());
        if terminated.is_some_and(|t| t.exit_code == 0) {
            continue;
        }
        if is_sidecar && container.started == Some(true) {
            if container.ready {
                ready += 1;
            }
            continue;
        }
        reason = if let Some(ended) = terminated {
            match ended.reason.as_deref().unwrap_or_default() {
                "" => match ended.signal {
                    Some(signal) if signal != 0 => format!("Init:Signal:{signal}"),
                    _ => format!("Init:ExitCode:{}", ended.exit_code),
                },
                named => format!("Init:{named}"),
            }
        } else if let Some(named) =
            waiting.and_then(|w| w.reason.as_deref()).filter(|r| !r.is_empty() && *r != "PodInitializing")
        {
            format!("Init:{named}")
        } else {
            format!("Init:{index}/{}", init_specs.len())
        };
        initializing = true;
        break;
    }

    if !initializing || condition_is_true(pod, "Initialized") {
        restarts = sidecar_restarts;
        last_restart = last_sidecar_restart;
        let mut has_running = false;
        let containers = status.and_then(|s| s.container_statuses.as_deref()).unwrap_or_default();
        for container in containers.iter().rev() {
            restarts += container.restart_count;
            last_restart = last_restart.max(last_end(container));
            let state = container.state.as_ref();
            let waiting = state.and_then(|s| s.waiting.as_ref()).and_then(|w| w.reason.as_deref());
            let terminated = state.and_then(|s| s.terminated.as_ref());
            if let Some(named) = waiting.filter(|r| !r.is_empty()) {
                reason = named.into();
            } else if let Some(ended) = terminated {
                reason = match ended.reason.as_deref().unwrap_or_default() {
                    "" => match ended.signal {
                        Some(signal) if signal != 0 => format!("Signal:{signal}"),
                        _ => format!("ExitCode:{}", ended.exit_code),
                    },
                    named => named.into(),
                };
            } else if container.ready && state.is_some_and(|s| s.running.is_some()) {
                has_running = true;
                ready += 1;
            }
        }
        // Completed beside a running container: the pod as a whole runs on.
        if reason == "Completed" && has_running {
            reason = if condition_is_true(pod, "Ready") { "Running" } else { "NotReady" }.into();
        }
    }

    if pod.metadata.deletion_timestamp.is_some() {
        let lost = status.and_then(|s| s.reason.as_deref()) == Some("NodeLost");
        if lost {
            reason = "Unknown".into();
        } else if !matches!(phase, "Succeeded" | "Failed") {
            reason = "Terminating".into();
        }
    }
    total = total.max(ready);
    let look = look_of(&reason, phase, ready, total);
    PodStatus { ready, total, status: reason, restarts, last_restart, look }
}

fn look_of(reason: &str, phase: &str, ready: usize, total: usize) -> Look {
    let bare = reason.strip_prefix("Init:").unwrap_or(reason);
    match bare {
        "Terminating" => Look::Terminating,
        "Completed" | "Succeeded" => Look::Succeeded,
        "CrashLoopBackOff" => Look::Crashing,
        "Unknown" | "NodeLost" => Look::Unknown,
        "Running" if ready == total => Look::Running,
        "Running" | "NotReady" | "Pending" | "ContainerCreating" | "PodInitializing" | "SchedulingGated" => {
            Look::Pending
        }
        _ if phase == "Pending" && bare.contains('/') => Look::Pending,
        _ => Look::Failed,
    }
}

fn last_end(container: &ContainerStatus) -> Option<Timestamp> {
    container.last_state.as_ref()?.terminated.as_ref()?.finished_at.as_ref().map(|time| time.0)
}

fn condition_is_true(pod: &Pod, name: &str) -> bool {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|c| c.type_ == name && c.status == "True"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(pod: serde_json::Value, status: &str, ready: &str, look: Look) {
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let seen = of(&pod);
        assert_eq!(
            (seen.status.as_str(), format!("{}/{}", seen.ready, seen.total).as_str()),
            (status, ready)
        );
        assert_eq!(seen.look, look, "{status}");
    }

    #[test]
    fn con_4_status_is_what_kubectl_prints() {
        let one = json!([{"name": "a"}]);
        check(
            json!({"spec": {"containers": one}, "status": {"phase": "Pending"}}),
            "Pending",
            "0/1",
            Look::Pending,
        );
        check(
            json!({"spec": {"containers": one}, "status": {"phase": "Running", "containerStatuses": [
                {"name": "a", "ready": true, "restartCount": 0, "image": "", "imageID": "", "state": {"running": {}}}]}}),
            "Running",
            "1/1",
            Look::Running,
        );
        check(
            json!({"spec": {"containers": one}, "status": {"phase": "Running", "containerStatuses": [
                {"name": "a", "ready": false, "restartCount": 4, "image": "", "imageID": "",
                 "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}}),
            "CrashLoopBackOff",
            "0/1",
            Look::Crashing,
        );
        check(
            json!({"spec": {"containers": one, "initContainers": [{"name": "i"}, {"name": "j"}]},
                "status": {"phase": "Pending", "initContainerStatuses": [
                {"name": "i", "ready": true, "restartCount": 0, "image": "", "imageID": "",
                 "state": {"terminated": {"exitCode": 0}}},
                {"name": "j", "ready": false, "restartCount": 0, "image": "", "imageID": "",
                 "state": {"running": {}}}]}}),
            "Init:1/2",
            "0/1",
            Look::Pending,
        );
        check(
            json!({"spec": {"containers": one}, "status": {"phase": "Failed", "containerStatuses": [
                {"name": "a", "ready": false, "restartCount": 0, "image": "", "imageID": "",
                 "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}]}}),
            "Error",
            "0/1",
            Look::Failed,
        );
        check(
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"containers": one}, "status": {"phase": "Running"}}),
            "Terminating",
            "0/1",
            Look::Terminating,
        );
    }
}
