//! A pod as a table row of kubectl.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStateTerminated, ContainerStatus, Pod};

use super::is_terminal;
use crate::conditions;
use crate::time::human_age;
use crate::well_known::condition::{INITIALIZED, POD_SCHEDULED, READY};

/// The columns READY, STATUS and RESTARTS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintedStatus {
    /// Ready containers, sidecars included.
    pub ready: usize,
    /// All containers, sidecars included.
    pub total: usize,
    /// `Running`, `Init:1/2`, `CrashLoopBackOff`, `Terminating` …
    pub status: String,
    /// The restarts of the init containers until the pod is initialized, then those of the sidecars and app containers.
    pub restarts: i32,
    /// The time of the last of those restarts.
    pub last_restart: Option<Timestamp>,
}

impl PrintedStatus {
    /// Returns the RESTARTS column: `0`, `3 (12s ago)`.
    pub fn restarts_text(&self, now: Timestamp) -> String {
        match self.last_restart {
            Some(then) if self.restarts != 0 => format!("{} ({} ago)", self.restarts, human_age(then, now)),
            _ => self.restarts.to_string(),
        }
    }

    /// Returns the READY column: `1/2`.
    pub fn ready_text(&self) -> String {
        format!("{}/{}", self.ready, self.total)
    }

    fn count(&mut self, container: &ContainerStatus) {
        self.restarts += container.restart_count;
        let ended = container.last_state.as_ref().and_then(|s| s.terminated.as_ref());
        let ended = ended.and_then(|t| t.finished_at.as_ref()).map(|t| t.0);
        self.last_restart = self.last_restart.max(ended);
    }
}

/// Returns kubectl's columns of a pod's status, computed from its containers' states.
pub fn printed_status(pod: &Pod) -> PrintedStatus {
    let empty = Vec::new();
    let init = pod.spec.as_ref().and_then(|s| s.init_containers.as_ref()).unwrap_or(&empty);
    let app_count = pod.spec.as_ref().map_or(0, |s| s.containers.len());
    let status = pod.status.clone().unwrap_or_default();
    let phase = status.phase.as_deref().unwrap_or_default();
    let conditions = status.conditions.as_ref();

    let reason = status.reason.as_deref().filter(|r| !r.is_empty());
    let mut printed = PrintedStatus {
        ready: 0,
        total: app_count + init.iter().filter(|c| is_sidecar(c)).count(),
        status: reason.unwrap_or(phase).to_string(),
        restarts: 0,
        last_restart: None,
    };
    if conditions::get(conditions, POD_SCHEDULED)
        .is_some_and(|c| c.reason.as_deref() == Some("SchedulingGated"))
    {
        printed.status = "SchedulingGated".into();
    }
    let sidecars =
        print_init(&mut printed, init, status.init_container_statuses.as_deref().unwrap_or_default());
    let initialized = conditions::is_true(conditions, INITIALIZED);
    if let Some(sidecars) = sidecars.done(initialized) {
        (printed.restarts, printed.last_restart) = sidecars;
        let ready = conditions::is_true(conditions, READY);
        print_containers(&mut printed, status.container_statuses.as_deref().unwrap_or_default(), ready);
    }
    if pod.metadata.deletion_timestamp.is_some() {
        if reason == Some("NodeLost") {
            printed.status = "Unknown".into();
        } else if !is_terminal(pod) {
            printed.status = "Terminating".into();
        }
    }
    printed
}

/// The progress of the init containers, which decides which restarts count.
struct Init {
    initializing: bool,
    sidecar_restarts: (i32, Option<Timestamp>),
}

impl Init {
    /// Returns the restarts of the sidecars, once the app containers count.
    fn done(self, initialized: bool) -> Option<(i32, Option<Timestamp>)> {
        (!self.initializing || initialized).then_some(self.sidecar_restarts)
    }
}

fn print_init(printed: &mut PrintedStatus, init: &[Container], statuses: &[ContainerStatus]) -> Init {
    let mut sidecars = PrintedStatus { status: String::new(), ..printed.clone() };
    for (index, container) in statuses.iter().enumerate() {
        printed.count(container);
        let sidecar = init.iter().any(|c| c.name == container.name && is_sidecar(c));
        if sidecar {
            sidecars.count(container);
        }
        let state = container.state.clone().unwrap_or_default();
        let waiting = state.waiting.and_then(|w| w.reason).unwrap_or_default();
        printed.status = match &state.terminated {
            Some(ended) if ended.exit_code == 0 => continue,
            _ if sidecar && container.started == Some(true) => {
                printed.ready += usize::from(container.ready);
                continue;
            }
            Some(ended) => format!("Init:{}", ended_reason(ended)),
            None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
            None => format!("Init:{index}/{}", init.len()),
        };
        return Init { initializing: true, sidecar_restarts: (sidecars.restarts, sidecars.last_restart) };
    }
    Init { initializing: false, sidecar_restarts: (sidecars.restarts, sidecars.last_restart) }
}

fn print_containers(printed: &mut PrintedStatus, statuses: &[ContainerStatus], pod_ready: bool) {
    let mut running = false;
    for container in statuses.iter().rev() {
        printed.count(container);
        let Some(state) = &container.state else { continue };
        let waiting = state.waiting.as_ref().and_then(|w| w.reason.as_deref()).filter(|r| !r.is_empty());
        if let Some(reason) = waiting {
            printed.status = reason.to_string();
        } else if let Some(ended) = &state.terminated {
            printed.status = ended_reason(ended);
        } else if container.ready && state.running.is_some() {
            running = true;
            printed.ready += 1;
        }
    }
    if printed.status == "Completed" && running {
        printed.status = if pod_ready { "Running" } else { "NotReady" }.into();
    }
}

fn ended_reason(ended: &ContainerStateTerminated) -> String {
    match (ended.reason.as_deref().unwrap_or_default(), ended.signal.unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", ended.exit_code),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_string(),
    }
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(value: Value) -> Pod {
        serde_json::from_value(value).expect("a pod")
    }

    fn started() -> Value {
        json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}})
    }

    fn container(name: &str, ready: bool, restarts: i32, state: &Value) -> Value {
        json!({"name": name, "ready": ready, "restartCount": restarts, "image": "", "imageID": "", "state": state,
            "started": ready, "lastState": if restarts > 0 {
                json!({"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z"}})
            } else { json!({}) }})
    }

    #[test]
    fn the_status_reads_as_in_kubectl_con_4() {
        let init = json!([{"name": "i1"}, {"name": "i2"}]);
        let apps = json!([{"name": "a"}, {"name": "b"}]);
        let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
        let ended = |code: i32, reason: &str| json!({"terminated": {"exitCode": code, "reason": reason}});
        // (case, spec, status, deleted, READY, STATUS, RESTARTS)
        let cases = [
            ("fresh", json!({"containers": apps}), json!({"phase": "Pending"}), false, "0/2", "Pending", "0"),
            (
                "gated",
                json!({"containers": apps}),
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
                false,
                "0/2",
                "SchedulingGated",
                "0",
            ),
            (
                "second init step runs",
                json!({"containers": apps, "initContainers": init}),
                json!({"phase": "Pending", "initContainerStatuses": [
                    container("i1", true, 0, &ended(0, "Completed")), container("i2", false, 0, &started())],
                    "containerStatuses": [container("a", false, 0, &waiting("PodInitializing"))]}),
                false,
                "0/2",
                "Init:1/2",
                "0",
            ),
            (
                "an init step crashes",
                json!({"containers": apps, "initContainers": init}),
                json!({"phase": "Pending", "initContainerStatuses": [container("i1", false, 3, &waiting("CrashLoopBackOff"))]}),
                false,
                "0/2",
                "Init:CrashLoopBackOff",
                "3 (12s ago)",
            ),
            (
                "an init step failed without a reason",
                json!({"containers": apps, "initContainers": init}),
                json!({"phase": "Failed", "initContainerStatuses": [container("i1", false, 0, &json!({"terminated": {"exitCode": 7}}))]}),
                false,
                "0/2",
                "Init:ExitCode:7",
                "0",
            ),
            (
                "initialized",
                json!({"containers": apps, "initContainers": init}),
                json!({"phase": "Pending", "initContainerStatuses": [
                    container("i1", true, 1, &ended(0, "Completed")), container("i2", true, 0, &ended(0, "Completed"))],
                    "containerStatuses": [container("a", false, 0, &waiting("PodInitializing"))]}),
                false,
                "0/2",
                "PodInitializing",
                "0",
            ),
            (
                "a sidecar counts",
                json!({"containers": apps, "initContainers": [{"name": "s", "restartPolicy": "Always"}]}),
                json!({"phase": "Running", "initContainerStatuses": [container("s", true, 2, &started())],
                    "containerStatuses": [container("a", true, 1, &started()), container("b", false, 0, &started())]}),
                false,
                "2/3",
                "Running",
                "3 (12s ago)",
            ),
            (
                "crash loop",
                json!({"containers": apps}),
                json!({"phase": "Running", "containerStatuses": [
                    container("a", false, 3, &waiting("CrashLoopBackOff")), container("b", true, 0, &started())]}),
                false,
                "1/2",
                "CrashLoopBackOff",
                "3 (12s ago)",
            ),
            (
                "one completed, one runs, the pod is not ready",
                json!({"containers": apps}),
                json!({"phase": "Running", "containerStatuses": [
                    container("a", false, 0, &ended(0, "Completed")), container("b", true, 0, &started())]}),
                false,
                "1/2",
                "NotReady",
                "0",
            ),
            (
                "done",
                json!({"containers": apps}),
                json!({"phase": "Succeeded", "containerStatuses": [container("a", false, 0, &ended(0, "Completed"))]}),
                false,
                "0/2",
                "Completed",
                "0",
            ),
            (
                "killed by a signal",
                json!({"containers": apps}),
                json!({"phase": "Failed", "containerStatuses": [container("a", false, 0, &json!({"terminated": {"exitCode": 137, "signal": 9}}))]}),
                false,
                "0/2",
                "Signal:9",
                "0",
            ),
            (
                "evicted",
                json!({"containers": apps}),
                json!({"phase": "Failed", "reason": "Evicted"}),
                false,
                "0/2",
                "Evicted",
                "0",
            ),
            (
                "terminating",
                json!({"containers": apps}),
                json!({"phase": "Running", "containerStatuses": [container("a", true, 0, &started())]}),
                true,
                "1/2",
                "Terminating",
                "0",
            ),
            (
                "on a lost node",
                json!({"containers": apps}),
                json!({"phase": "Running", "reason": "NodeLost"}),
                true,
                "0/2",
                "Unknown",
                "0",
            ),
        ];
        let now = "2026-01-01T00:00:12Z".parse().expect("a time");
        for (what, spec, status, deleted, ready, text, restarts) in cases {
            let meta = if deleted { json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}) } else { json!({}) };
            let printed = printed_status(&pod(json!({"metadata": meta, "spec": spec, "status": status})));
            assert_eq!(
                (printed.ready_text().as_str(), printed.status.as_str(), printed.restarts_text(now).as_str()),
                (ready, text, restarts),
                "{what}"
            );
        }
    }
}
