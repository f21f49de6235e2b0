//! Ephemeral debug containers: the patch that adds one, and the progress of a container until it runs.
//!
//! Never opens the terminal itself (the session does, once [`StartProgress::Running`] is reported) and never removes
//! the container: Kubernetes does not allow that (EPH-1).

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use console_toolkit::text::generated;

/// A debug container to be added to a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebugPlan {
    /// The name of the new container: `debugger-` and five letters.
    pub name: String,
    /// The image with the debugging tools.
    pub image: String,
    /// The target container; the debug container sees its processes.
    pub(crate) target: Option<String>,
    /// The command to run instead of the image's entry point.
    pub(crate) command: Vec<String>,
}

impl DebugPlan {
    /// Creates a plan with a new name, as `kubectl debug` does.
    pub fn new(image: &str, target: Option<String>, command: Vec<String>) -> Self {
        Self { name: format!("debugger-{}", generated(5)), image: image.to_owned(), target, command }
    }

    /// Returns the strategic merge patch for the `ephemeralcontainers` subresource. The list's merge key is the name,
    /// so that containers added by other clients meanwhile stay.
    pub fn patch(&self) -> Value {
        let mut container = json!({
            "name": self.name,
            "image": self.image,
            "stdin": true,
            "tty": true,
            "terminationMessagePolicy": "File",
        });
        if let Some(target) = &self.target {
            container["targetContainerName"] = json!(target);
        }
        if !self.command.is_empty() {
            container["command"] = json!(self.command);
        }
        json!({ "spec": { "ephemeralContainers": [container] } })
    }

    /// Returns the equivalent kubectl command, for the journal.
    pub fn kubectl(&self, namespace: &str, pod: &str) -> String {
        let mut line =
            format!("kubectl debug -it -n {namespace} {pod} --image={} -c {}", self.image, self.name);
        if let Some(target) = &self.target {
            line = format!("{line} --target={target}");
        }
        if !self.command.is_empty() {
            line.push_str(" -- ");
            line.push_str(&self.command.join(" "));
        }
        line
    }
}

/// The progress of a container until it can be attached to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartProgress {
    /// Not running yet: the complete reason and message of the container's status.
    Waiting {
        /// `ContainerCreating`, `ErrImagePull` …; empty before the kubelet reports it.
        reason: String,
        /// The kubelet's message.
        message: String,
        /// True if it will not resolve soon by itself (a failed pull).
        trouble: bool,
    },
    /// Running: it can be attached to.
    Running,
    /// It ended before the console attached.
    Ended {
        /// Exit code of its main process.
        exit_code: i32,
        /// Complete reason and message.
        message: String,
    },
    /// The pod failed before the container started: its complete reason and message.
    PodFailed(String),
    /// The pod was deleted.
    #[serde(rename = "PodGone")]
    PodDeleted,
}

/// Reads the progress of one container, ephemeral or not, from the last version of the pod.
pub(crate) fn progress(pod: Option<&Pod>, container: &str) -> StartProgress {
    let Some(pod) = pod else { return StartProgress::PodDeleted };
    let statuses = pod.status.iter().flat_map(|status| {
        status.ephemeral_container_statuses.iter().chain(&status.container_statuses).flatten()
    });
    let failed = pod.status.as_ref().filter(|status| status.phase.as_deref() == Some("Failed"));
    match (statuses.into_iter().find(|status| status.name == container), failed) {
        (Some(status), None) => return container_progress(status),
        (Some(status), Some(_)) if status.state.as_ref().is_some_and(|state| state.terminated.is_some()) => {
            return container_progress(status);
        }
        (_, Some(failed)) => {
            let parts = [failed.reason.as_deref(), failed.message.as_deref()];
            return StartProgress::PodFailed(parts.into_iter().flatten().collect::<Vec<_>>().join(": "));
        }
        (None, None) => {}
    }
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let message = match node {
        Some(node) => format!("waiting for the kubelet of {node}"),
        None => "the pod is not assigned to a node yet".to_owned(),
    };
    StartProgress::Waiting { reason: String::new(), message, trouble: node.is_none() }
}

fn container_progress(status: &ContainerStatus) -> StartProgress {
    let state = status.state.as_ref();
    if state.is_some_and(|state| state.running.is_some()) {
        return StartProgress::Running;
    }
    if let Some(ended) = state.and_then(|state| state.terminated.as_ref()) {
        let reason = ended.reason.clone().unwrap_or_default();
        let message = match ended.message.as_deref() {
            Some(message) if !message.is_empty() => format!("{reason}: {message}"),
            _ => reason,
        };
        return StartProgress::Ended { exit_code: ended.exit_code, message };
    }
    let waiting = state.and_then(|state| state.waiting.as_ref());
    let reason = waiting.and_then(|waiting| waiting.reason.clone()).unwrap_or_default();
    let message = waiting.and_then(|waiting| waiting.message.clone()).unwrap_or_default();
    let is_stuck = reason.starts_with("Err")
        || reason.ends_with("Error")
        || reason.ends_with("BackOff")
        || reason == "InvalidImageName";
    StartProgress::Waiting { reason, message, trouble: is_stuck }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "a literal reads best at the call")]
    fn pod(status: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "default" },
            "spec": { "containers": [], "nodeName": "node-1" },
            "status": { "ephemeralContainerStatuses": status },
        }))
        .unwrap()
    }

    #[expect(clippy::needless_pass_by_value, reason = "a literal reads best at the call")]
    fn state(state: Value) -> Value {
        json!([{ "name": "debugger-x", "image": "busybox", "imageID": "", "ready": false,
                 "restartCount": 0, "state": state }])
    }

    /// CON-8, EPH-1: the progress that a user sees while a debug container starts.
    #[test]
    fn progress_is_read_from_the_container_status() {
        let waiting = |reason: &str, message: &str, trouble| StartProgress::Waiting {
            reason: reason.to_owned(),
            message: message.to_owned(),
            trouble,
        };
        let cases = [
            (json!([]), waiting("", "waiting for the kubelet of node-1", false)),
            (
                state(json!({ "waiting": { "reason": "ContainerCreating" } })),
                waiting("ContainerCreating", "", false),
            ),
            (
                state(json!({ "waiting": { "reason": "ImagePullBackOff", "message": "Back-off pulling" } })),
                waiting("ImagePullBackOff", "Back-off pulling", true),
            ),
            (
                state(json!({ "waiting": { "reason": "CreateContainerError", "message": "no" } })),
                waiting("CreateContainerError", "no", true),
            ),
            (state(json!({ "running": {} })), StartProgress::Running),
            (
                state(
                    json!({ "terminated": { "exitCode": 127, "reason": "StartError", "message": "no sh" } }),
                ),
                StartProgress::Ended { exit_code: 127, message: "StartError: no sh".to_owned() },
            ),
        ];
        for (status, expect) in cases {
            assert_eq!(progress(Some(&pod(status.clone())), "debugger-x"), expect, "{status}");
        }
        assert_eq!(progress(None, "debugger-x"), StartProgress::PodDeleted);
    }

    #[test]
    fn the_patch_names_the_target_and_asks_for_a_terminal() {
        let mut plan = DebugPlan::new("busybox", Some("nginx".to_owned()), vec![]);
        assert!(plan.name.starts_with("debugger-") && plan.name.len() == 14, "{}", plan.name);
        plan.name = "debugger-abcde".to_owned();
        assert_eq!(
            plan.patch(),
            json!({ "spec": { "ephemeralContainers": [{
                "name": "debugger-abcde", "image": "busybox", "stdin": true, "tty": true,
                "terminationMessagePolicy": "File", "targetContainerName": "nginx",
            }] } })
        );
        assert_eq!(
            plan.kubectl("default", "web"),
            "kubectl debug -it -n default web --image=busybox -c debugger-abcde --target=nginx"
        );
    }
}
