//! Reads a pod: its phase and readiness, its node and addresses, its owner, and kubectl's columns.

pub mod disruption;
mod phase;
mod printed;
mod pull_progress;
mod readiness;
pub mod references;
mod restart_rules;

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod};

use super::owner::{controller_of, is_terminating};
use super::well_known::annotation::{CONFIG_SOURCE, MIRROR_POD};
pub use phase::{Phase, is_active, is_terminal, phase};
pub use printed::{PrintedStatus, printed_status};
pub use pull_progress::{
    InvalidProgress, PullProgress, container_pull_progress, pod_pull_progress, waiting_pull_progress,
};
pub use readiness::{
    Availability, AvailabilityCounts, availability, condition, is_ready, is_true, ready_since,
};
pub use restart_rules::{RESTART_ALL, can_restart_all, restart_rule};

/// Returns the node the pod is bound to.
pub fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// Returns true if the pod uses the network of its node.
pub fn is_on_host_network(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true))
}

/// Returns the pod's addresses, the primary one first.
pub fn addresses(pod: &Pod) -> Vec<IpAddr> {
    let Some(status) = &pod.status else { return Vec::new() };
    let all = status.pod_ip.iter().chain(status.pod_ips.iter().flatten().map(|own| &own.ip));
    let mut addresses: Vec<IpAddr> = Vec::new();
    for ip in all.filter_map(|ip| ip.parse().ok()) {
        if !addresses.contains(&ip) {
            addresses.push(ip);
        }
    }
    addresses
}

/// Returns the node from which other pods are evicted to make room for this one.
pub fn nominated_node_name(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.nominated_node_name.as_deref().filter(|name| !name.is_empty())
}

/// Returns true if a DaemonSet controls the pod and would recreate it, so that a drain leaves it.
pub fn is_of_daemon_set(pod: &Pod) -> bool {
    controller_of(&pod.metadata).is_some_and(|owner| owner.kind == "DaemonSet")
}

/// Returns true if the pod is a mirror pod, which represents a static pod in the API.
pub fn is_mirror(pod: &Pod) -> bool {
    pod.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(MIRROR_POD))
}

/// Returns true if the pod, or the static pod it mirrors, came from a manifest of its node.
pub fn is_from_file(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.and_then(|a| a.get(CONFIG_SOURCE)).is_some_and(|source| source == "file")
}

/// Returns true if the pod may be evicted regardless of its disruption budget: it is terminating, has ended, or never
/// ran.
pub fn can_ignore_budget(pod: &Pod) -> bool {
    let given = pod.status.as_ref().is_some_and(|status| status.phase.is_some());
    is_terminating(&pod.metadata) || is_terminal(pod) || (given && phase(pod) == Phase::Pending)
}

/// Converts an ephemeral container to a container. Block devices, and the fields that ephemeral containers may not have,
/// are left out.
pub fn as_container(ephemeral: &EphemeralContainer) -> Container {
    let c = ephemeral.clone();
    Container {
        args: c.args,
        command: c.command,
        env: c.env,
        env_from: c.env_from,
        image: c.image,
        image_pull_policy: c.image_pull_policy,
        name: c.name,
        security_context: c.security_context,
        stdin: c.stdin,
        stdin_once: c.stdin_once,
        termination_message_path: c.termination_message_path,
        termination_message_policy: c.termination_message_policy,
        tty: c.tty,
        volume_mounts: c.volume_mounts,
        working_dir: c.working_dir,
        ..Container::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_ephemeral_container_is_run_like_any_other_eph_1() {
        let given = json!({"args": ["a"], "command": ["c"], "env": [{"name": "K", "value": "v"}],
            "envFrom": [{"prefix": "P"}], "image": "i", "imagePullPolicy": "Never", "name": "e",
            "securityContext": {"runAsUser": 7}, "stdin": true, "stdinOnce": true, "terminationMessagePath": "/t",
            "terminationMessagePolicy": "File", "tty": true, "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "workingDir": "/w"});
        let mut with_target = given.clone();
        with_target["targetContainerName"] = json!("c");
        let ephemeral: EphemeralContainer = serde_json::from_value(with_target).unwrap();
        let shown: Value = serde_json::to_value(as_container(&ephemeral)).unwrap();
        assert_eq!(shown, given);
    }
}
