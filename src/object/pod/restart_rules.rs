//! `restartPolicyRules`: a container's own rules on restarts, by exit code.

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule, PodSpec};

/// The action that restarts every container of the pod.
pub const RESTART_ALL: &str = "RestartAllContainers";

/// Returns the first of a container's rules that matches an exit code. All actions restart the container.
pub fn restart_rule(container: &Container, exit_code: i32) -> Option<&ContainerRestartRule> {
    container.restart_policy_rules.iter().flatten().find(|rule| {
        rule.exit_codes.as_ref().is_some_and(|codes| {
            let listed = codes.values.iter().flatten().any(|v| *v == exit_code);
            if codes.operator == "NotIn" { !listed } else { listed }
        })
    })
}

/// Returns true if some exit can restart all containers of the pod.
pub fn can_restart_all(spec: &PodSpec) -> bool {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let mut rules = containers.flat_map(|container| container.restart_policy_rules.iter().flatten());
    rules.any(|rule| rule.action == RESTART_ALL)
}
