//! The state of each container of a pod: a pure function of the pod and its usage.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateTerminated, ContainerStatus, Pod, Probe, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::pod_status::pulling;
use crate::store::{ContainerUsages, ResourceUsage};
use base::quote::{prints, quote};
use console_toolkit::health::Health;
use object::pod::{PullProgress, as_container, container_pull_progress};
use object::quantity::Amount;
use object::time::read_go_duration;

/// Returns the running containers, for exec and copy: the pod's own first, then its ephemeral containers.
pub fn running(pod: &Pod) -> Vec<String> {
    statuses(pod)
        .filter(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()))
        .map(|status| status.name.clone())
        .collect()
}

/// Returns the statuses of a pod's containers: its own first, then init containers and ephemeral ones.
pub fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status.iter().flat_map(|status| {
        let own = status.container_statuses.iter().chain(&status.init_container_statuses);
        own.chain(&status.ephemeral_container_statuses).flatten()
    })
}

/// The state of one container.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerFacts {
    /// The name of the container.
    pub name: String,
    /// `init`, `sidecar`, `debug`; empty for the main containers.
    pub role: &'static str,
    /// The container is ready; `None` if readiness does not apply to it.
    pub ready: Option<bool>,
    /// `Running`, the waiting reason, or the exit.
    pub state: String,
    /// The health of that state.
    pub health: Health,
    /// The container is running.
    pub is_running: bool,
    /// The container waits for its first start or a restart.
    pub is_waiting: bool,
    /// The progress of the image pull for which the container waits, if its kubelet reports it.
    pub pull: Option<PullProgress>,
    /// The server's message about the state.
    pub message: Option<String>,
    /// The start of the current run.
    pub since: Option<Timestamp>,
    /// The number of restarts.
    pub restarts: i32,
    /// The exit of the previous run, and its time.
    pub last_exit: Option<(String, Option<Timestamp>)>,
    /// The time of the next restart, if it is in back-off.
    pub retry_at: Option<Timestamp>,
    /// The image in the spec.
    pub image: String,
    /// Its ports: `http 8080/TCP`.
    pub ports: Vec<String>,
    /// Its probes as text.
    pub probes: Vec<(&'static str, String)>,
    /// The requests: CPU in thousandths, memory in bytes.
    pub requests: (Option<i64>, Option<i64>),
    /// The limits, in the same units.
    pub limits: (Option<i64>, Option<i64>),
    /// The measured usage, if available.
    pub used: Option<ResourceUsage>,
    /// Command and arguments, if the pod sets them.
    pub command: Vec<String>,
}

/// Returns every container: main containers first, then init containers, then ephemeral ones.
pub fn of_pod(pod: &Pod, used: Option<&ContainerUsages>) -> Vec<ContainerFacts> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let status = pod.status.as_ref();
    let used = |name: &str| used.and_then(|used| used.of(name));
    let of = |statuses: Option<&Vec<ContainerStatus>>, name: &str| {
        statuses.and_then(|all| all.iter().find(|status| status.name == name)).cloned()
    };
    let mut all: Vec<ContainerFacts> = Vec::new();
    for container in &spec.containers {
        let status = of(status.and_then(|status| status.container_statuses.as_ref()), &container.name);
        all.push(of_container(container, "", status.as_ref(), used(&container.name)));
    }
    for container in spec.init_containers.iter().flatten() {
        let status = of(status.and_then(|status| status.init_container_statuses.as_ref()), &container.name);
        let role = if container.restart_policy.as_deref() == Some("Always") { "sidecar" } else { "init" };
        all.push(of_container(container, role, status.as_ref(), used(&container.name)));
    }
    for container in spec.ephemeral_containers.iter().flatten() {
        let status =
            of(status.and_then(|status| status.ephemeral_container_statuses.as_ref()), &container.name);
        let plain = as_container(container);
        all.push(of_container(&plain, "debug", status.as_ref(), used(&container.name)));
    }
    all
}

fn of_container(
    container: &Container,
    role: &'static str,
    status: Option<&ContainerStatus>,
    used: Option<ResourceUsage>,
) -> ContainerFacts {
    let state = status.and_then(|status| status.state.as_ref());
    let pull = status.and_then(container_pull_progress);
    let (word, health, message) = describe_state(state, role, status.is_some_and(|status| status.ready));
    let last = status.and_then(|status| status.last_state.as_ref()?.terminated.as_ref());
    let waits = state.and_then(|state| state.waiting.as_ref()).and_then(|waiting| waiting.reason.as_deref());
    let restarts = status.map_or(0, |status| status.restart_count);
    let ended = last.and_then(|last| last.finished_at.as_ref()).map(|time| time.0);
    let crashed = ended.filter(|_| waits == Some("CrashLoopBackOff"));
    let retry_at = crashed.and_then(|ended| retry_at(ended, message.as_deref()?));
    let resources = container.resources.as_ref();
    let probes = [
        ("startup", &container.startup_probe),
        ("readiness", &container.readiness_probe),
        ("liveness", &container.liveness_probe),
    ];
    ContainerFacts {
        name: container.name.clone(),
        role,
        ready: status.filter(|_| matches!(role, "" | "sidecar")).map(|status| status.ready),
        state: pull.map_or(word, pulling),
        health,
        is_running: state.is_some_and(|state| state.running.is_some()),
        is_waiting: state.is_some_and(|state| state.waiting.is_some()),
        pull,
        message,
        since: state.and_then(|state| state.running.as_ref()?.started_at.as_ref()).map(|time| time.0),
        restarts,
        last_exit: last.map(|last| (exit(last), ended)),
        retry_at,
        image: container.image.clone().unwrap_or_default(),
        ports: ports(container),
        probes: probes
            .into_iter()
            .filter_map(|(name, probe)| Some((name, describe_probe(probe.as_ref()?))))
            .collect(),
        requests: amounts(resources, |resources| resources.requests.as_ref()),
        limits: amounts(resources, |resources| resources.limits.as_ref()),
        used,
        command: container.command.iter().chain(&container.args).flatten().cloned().collect(),
    }
}

/// Returns the time at which a crashed container restarts. The kubelet's message has the delay: `back-off 40s
/// restarting …`.
pub(crate) fn retry_at(ended: Timestamp, message: &str) -> Option<Timestamp> {
    let (_, rest) = message.split_once("back-off ")?;
    let wait = read_go_duration(rest.split(' ').next()?)?;
    ended.checked_add(SignedDuration::try_from(wait).ok()?).ok()
}

fn describe_state(
    state: Option<&ContainerState>,
    role: &str,
    ready: bool,
) -> (String, Health, Option<String>) {
    let Some(state) = state else { return ("Waiting".to_owned(), Health::Pending, None) };
    if state.running.is_some() {
        let must_be_ready = matches!(role, "" | "sidecar");
        let health = if ready || !must_be_ready { Health::Running } else { Health::Pending };
        let label = if ready || !must_be_ready { "Running" } else { "Running, not ready" };
        return (label.to_owned(), health, None);
    }
    if let Some(ended) = &state.terminated {
        let health = if ended.exit_code == 0 { Health::Succeeded } else { Health::Failed };
        return (exit(ended), health, ended.message.clone());
    }
    let waiting = state.waiting.as_ref();
    let reason = waiting.and_then(|waiting| waiting.reason.clone()).unwrap_or_else(|| "Waiting".to_owned());
    let health = match reason.as_str() {
        "ContainerCreating" | "PodInitializing" | "Waiting" => Health::Pending,
        "CrashLoopBackOff" => Health::Crashing,
        _ => Health::Failed,
    };
    (reason, health, waiting.and_then(|waiting| waiting.message.clone()))
}

/// Describes an exit: `Error, exit 1`.
fn exit(ended: &ContainerStateTerminated) -> String {
    let reason = ended.reason.as_deref().unwrap_or("Terminated");
    match ended.signal.filter(|signal| *signal > 0) {
        Some(signal) => format!("{reason}, signal {signal}"),
        None if ended.exit_code == 0 => reason.to_owned(),
        None => format!("{reason}, exit {}", ended.exit_code),
    }
}

fn ports(container: &Container) -> Vec<String> {
    let port = |port: &k8s_openapi::api::core::v1::ContainerPort| {
        let name = port.name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
        format!("{name}{}/{}", port.container_port, port.protocol.as_deref().unwrap_or("TCP"))
    };
    container.ports.iter().flatten().map(port).collect()
}

fn amounts(
    resources: Option<&ResourceRequirements>,
    list: fn(
        &ResourceRequirements,
    ) -> Option<&BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>,
) -> (Option<i64>, Option<i64>) {
    let list = resources.and_then(list);
    let there = |name: &str| list.is_some_and(|list| list.contains_key(name));
    let amount = |name: &str| Amount::in_list(list, name);
    (there("cpu").then(|| amount("cpu").millis()), there("memory").then(|| amount("memory").units()))
}

/// Returns a command as one line: words that a space, a line end or a quote would make ambiguous are quoted.
pub fn command_line<'a>(words: impl IntoIterator<Item = &'a String>) -> String {
    let is_plain =
        |word: &str| !word.is_empty() && word.chars().all(|c| prints(c) && !matches!(c, ' ' | '"' | '\\'));
    let words = words.into_iter().map(|word| if is_plain(word) { word.clone() } else { quote(word) });
    words.collect::<Vec<_>>().join(" ")
}

fn describe_probe(probe: &Probe) -> String {
    let port = |port: &IntOrString| match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => name.clone(),
    };
    let how = match probe {
        Probe { http_get: Some(get), .. } => {
            format!("GET :{}{}", port(&get.port), get.path.as_deref().unwrap_or("/"))
        }
        Probe { tcp_socket: Some(socket), .. } => format!("connect :{}", port(&socket.port)),
        Probe { grpc: Some(grpc), .. } => format!("gRPC :{}", grpc.port),
        Probe { exec: Some(exec), .. } => command_line(exec.command.iter().flatten()),
        _ => "?".to_owned(),
    };
    format!(
        "{how}  every {}s, fails after {}",
        probe.period_seconds.unwrap_or(10),
        probe.failure_threshold.unwrap_or(3)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_is_one_unambiguous_line_con_16() {
        for (words, line) in [
            (&["nginx", "-g", "daemon off;"][..], r#"nginx -g "daemon off;""#),
            (&["sh", "-c", "a\n  b\tc"], r#"sh -c "a\n  b\tc""#),
            (&["", "x\u{1b}[31m", "é"], r#""" "x\x1b[31m" é"#),
        ] {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            assert_eq!(command_line(&words), line);
        }
    }

    #[test]
    fn each_container_has_its_role_and_state_con_16() {
        let pod: Pod = serde_json::from_value(json!({
            "spec": {
                "containers": [
                    {"name": "main", "image": "nginx", "ports": [{"name": "http", "containerPort": 80}],
                        "readinessProbe": {"httpGet": {"port": "http", "path": "/ok"}},
                        "resources": {"limits": {"cpu": "1", "memory": "64Mi"}}},
                    {"name": "other"}],
                "initContainers": [{"name": "first"}, {"name": "proxy", "restartPolicy": "Always"}],
                "ephemeralContainers": [{"name": "debugger", "image": "busybox"}],
            },
            "status": {
                "containerStatuses": [
                    {"name": "main", "ready": false, "restartCount": 2, "image": "", "imageID": "",
                        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container=main"}},
                        "lastState": {"terminated": {"exitCode": 1, "reason": "Error",
                            "finishedAt": "2026-05-01T12:00:00Z"}}}],
                "initContainerStatuses": [
                    {"name": "first", "ready": true, "restartCount": 0, "image": "", "imageID": "",
                        "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
                    {"name": "proxy", "ready": false, "restartCount": 0, "image": "", "imageID": "",
                        "state": {"running": {}}}],
                "ephemeralContainerStatuses": [
                    {"name": "debugger", "ready": false, "restartCount": 0, "image": "", "imageID": "",
                        "state": {"terminated": {"exitCode": 137, "signal": 9, "reason": "Killed"}}}],
            },
        }))
        .unwrap();
        let used = ContainerUsages::from_iter([("main", ResourceUsage { cpu_millis: 900, memory_bytes: 1 })]);
        let all = of_pod(&pod, Some(&used));
        let containers: Vec<_> = all
            .iter()
            .map(|one| (one.name.as_str(), one.role, one.state.as_str(), one.health, one.ready))
            .collect();
        assert_eq!(
            containers,
            [
                ("main", "", "CrashLoopBackOff", Health::Crashing, Some(false)),
                ("other", "", "Waiting", Health::Pending, None),
                ("first", "init", "Completed", Health::Succeeded, None),
                ("proxy", "sidecar", "Running, not ready", Health::Pending, Some(false)),
                ("debugger", "debug", "Killed, signal 9", Health::Failed, None),
            ]
        );
        let main = &all[0];
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(main.last_exit, Some(("Error, exit 1".to_owned(), Some(at("2026-05-01T12:00:00Z")))));
        assert_eq!(main.retry_at, Some(at("2026-05-01T12:00:40Z")));
        assert_eq!(main.ports, ["http 80/TCP"]);
        assert_eq!(main.probes, [("readiness", "GET :http/ok  every 10s, fails after 3".to_owned())]);
        assert_eq!((main.limits, main.requests), ((Some(1000), Some(64 << 20)), (None, None)));
        assert_eq!(main.used.map(|used| used.cpu_millis), Some(900));
        assert_eq!(
            retry_at(at("2026-05-01T12:00:00Z"), "back-off 2m40s restarting"),
            Some(at("2026-05-01T12:02:40Z"))
        );
        for unknown in ["", "back-off", "back-off soon", "back-off 999999999999h"] {
            assert_eq!(retry_at(at("2026-05-01T12:00:00Z"), unknown), None, "{unknown}");
        }
    }
}
