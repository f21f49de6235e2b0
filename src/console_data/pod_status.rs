//! The STATUS of a pod as kubectl prints it, and its health.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use console_toolkit::health::Health;
use object::pod::{PrintedStatus, printed_status};

/// The values of the columns READY, STATUS and RESTARTS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodStatus {
    /// Ready containers.
    pub ready: usize,
    /// Containers in the READY total: the main ones and sidecars.
    pub total: usize,
    /// STATUS, verbatim as kubectl prints it.
    pub status: String,
    /// Restarts of the containers in the READY total.
    pub restarts: i32,
    /// End of the last run before a restart.
    pub(crate) last_restart: Option<Timestamp>,
    /// The health of that status.
    pub health: Health,
}

/// Returns the columns as kubectl prints them, and the pod's health.
pub fn of(pod: &Pod) -> PodStatus {
    let PrintedStatus { ready, total, status, restarts, last_restart } = printed_status(pod);
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or("Unknown");
    let status = if status.is_empty() { phase.to_string() } else { status };
    let health = health_of(&status, phase, ready, total);
    PodStatus { ready, total, status, restarts, last_restart, health }
}

fn health_of(reason: &str, phase: &str, ready: usize, total: usize) -> Health {
    let bare = reason.strip_prefix("Init:").unwrap_or(reason);
    match bare {
        "Terminating" => Health::Terminating,
        "Completed" | "Succeeded" => Health::Succeeded,
        "CrashLoopBackOff" => Health::Crashing,
        "Unknown" | "NodeLost" => Health::Unknown,
        "Running" if ready == total => Health::Running,
        "Running" | "NotReady" | "Pending" | "ContainerCreating" | "PodInitializing" | "SchedulingGated" => {
            Health::Pending
        }
        _ if phase == "Pending" && bare.contains('/') => Health::Pending,
        _ => Health::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(pod: serde_json::Value, status: &str, ready: &str, health: Health) {
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let seen = of(&pod);
        assert_eq!(
            (seen.status.as_str(), format!("{}/{}", seen.ready, seen.total).as_str()),
            (status, ready)
        );
        assert_eq!(seen.health, health, "{status}");
    }

    #[test]
    fn status_is_what_kubectl_prints_con_4() {
        let one = json!([{"name": "a"}]);
        check(
            json!({"spec": {"containers": one}, "status": {"phase": "Pending"}}),
            "Pending",
            "0/1",
            Health::Pending,
        );
        check(
            json!({"spec": {"containers": one}, "status": {"phase": "Running", "containerStatuses": [
                {"name": "a", "ready": true, "restartCount": 0, "image": "", "imageID": "", "state": {"running": {}}}]}}),
            "Running",
            "1/1",
            Health::Running,
        );
        check(
            json!({"spec": {"containers": one}, "status": {"phase": "Running", "containerStatuses": [
                {"name": "a", "ready": false, "restartCount": 4, "image": "", "imageID": "",
                 "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}}),
            "CrashLoopBackOff",
            "0/1",
            Health::Crashing,
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
            Health::Pending,
        );
        check(
            json!({"spec": {"containers": one}, "status": {"phase": "Failed", "containerStatuses": [
                {"name": "a", "ready": false, "restartCount": 0, "image": "", "imageID": "",
                 "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}]}}),
            "Error",
            "0/1",
            Health::Failed,
        );
        check(
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"containers": one}, "status": {"phase": "Running"}}),
            "Terminating",
            "0/1",
            Health::Terminating,
        );
    }
}
