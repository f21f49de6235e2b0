//! The STATUS of a pod as kubectl prints it, and its health.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use console_toolkit::health::Health;
use object::pod::{PrintedStatus, PullProgress, pod_pull_progress, printed_status};

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
    /// The progress of the image pulls for which the pod waits, if its kubelet reports it.
    pub pull: Option<PullProgress>,
}

impl PodStatus {
    /// Returns STATUS, or the progress of the image pulls for which the pod waits: `Pulling 43%`.
    pub fn with_progress(&self) -> String {
        self.pull.map_or_else(|| self.status.clone(), pulling)
    }
}

/// Returns the progress of a pull as a state: `Pulling 43%`.
pub(crate) fn pulling(progress: PullProgress) -> String {
    match progress.percent() {
        Some(percent) => format!("Pulling {percent}%"),
        None => "Pulling".to_owned(),
    }
}

/// Returns the columns as kubectl prints them, and the pod's health.
pub fn of(pod: &Pod) -> PodStatus {
    let PrintedStatus { ready, total, status, restarts, last_restart } = printed_status(pod);
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or("Unknown");
    let status = if status.is_empty() { phase.to_string() } else { status };
    let health = health_of(&status, phase, ready, total);
    // Another state of the pod matters more: it terminates, or one of its containers fails.
    let pull = pod_pull_progress(pod).filter(|_| health == Health::Pending);
    PodStatus { ready, total, status, restarts, last_restart, health, pull }
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

    /// Only a kubelet that reports the progress of pulls changes what the status shows.
    #[test]
    fn a_status_shows_the_progress_of_a_pull_con_4() {
        let pod = |waiting: serde_json::Value, other: serde_json::Value| -> Pod {
            let status = |name: &str, state| json!({"name": name, "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": state});
            serde_json::from_value(json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]},
                "status": {"phase": "Pending", "containerStatuses": [status("a", json!({"waiting": waiting})),
                    status("b", other)]}}))
            .expect("a pod")
        };
        let creating = |message: Option<&str>| json!({"reason": "ContainerCreating", "message": message});
        let running = || json!({"running": {}});
        let failing = || json!({"waiting": {"reason": "ErrImagePull", "message": "1.0 of 2.0 MB"}});
        for (waiting, other, status, shown) in [
            (creating(Some("4.3 of 10.0 MB")), running(), "ContainerCreating", "Pulling 43%"),
            (creating(Some("4.3 MB")), running(), "ContainerCreating", "Pulling"),
            (creating(Some("waits for a volume")), running(), "ContainerCreating", "ContainerCreating"),
            (creating(None), running(), "ContainerCreating", "ContainerCreating"),
            (
                json!({"reason": "ErrImagePull", "message": "1.0 of 2.0 MB"}),
                running(),
                "ErrImagePull",
                "ErrImagePull",
            ),
            (
                json!({"reason": "ImagePullBackOff"}),
                json!({"waiting": creating(Some("4.3 of 10.0 MB"))}),
                "ImagePullBackOff",
                "ImagePullBackOff",
            ),
            (creating(Some("4.3 of 10.0 MB")), failing(), "ContainerCreating", "Pulling 43%"),
        ] {
            let seen = super::of(&pod(waiting, other));
            assert_eq!((seen.status.as_str(), seen.with_progress().as_str()), (status, shown));
        }
    }
}
