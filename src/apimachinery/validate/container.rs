//! Rules of containers: app containers, init containers and sidecars.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{Container, ContainerPort, ContainerResizePolicy};

use super::field::{FieldErrors, Path};
use super::pod_context::PodContext;
use super::{environment, names, probe, resources, security, volumes};

/// The resources that can be resized.
pub const RESIZABLE: [&str; 2] = ["cpu", "memory"];
const RESIZE_POLICIES: &[&str] = &["NotRequired", "RestartContainer"];
const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const MAX_RESTART_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;

/// Validates the app containers and returns their names.
pub fn app_containers<'a>(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    list: &'a [Container],
    pod: &PodContext<'_>,
) -> HashSet<&'a str> {
    let mut seen = HashSet::new();
    if list.is_empty() {
        errors.required(path, "");
    }
    for (path, container) in path.each(list.iter()) {
        any_container(errors, &path, container, pod);
        if !container.name.is_empty() && !seen.insert(container.name.as_str()) {
            errors.duplicate(&path.child("name"), &container.name);
        }
        if let Some(lifecycle) = &container.lifecycle {
            probe::lifecycle(errors, &path.child("lifecycle"), lifecycle, pod);
        }
        probes(errors, &path, container);
        restart_rules(errors, &path, container);
    }
    host_port_conflicts(errors, path, list);
    seen
}

/// Validates the init containers, and adds their names to `used_names`. Sidecars among them may have hooks and probes.
pub fn init_containers<'a>(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    list: &'a [Container],
    pod: &PodContext<'_>,
    used_names: &mut HashSet<&'a str>,
) {
    for (path, container) in path.each(list.iter()) {
        any_container(errors, &path, container, pod);
        let policy = container.restart_policy.as_deref();
        restart_rules(errors, &path, container);
        if !container.name.is_empty() && !used_names.insert(container.name.as_str()) {
            errors.duplicate(&path.child("name"), &container.name);
        }
        if policy == Some("Always") {
            if let Some(lifecycle) = &container.lifecycle {
                probe::lifecycle(errors, &path.child("lifecycle"), lifecycle, pod);
            }
            probes(errors, &path, container);
        } else {
            for (field, given) in [
                ("lifecycle", container.lifecycle.is_some()),
                ("livenessProbe", container.liveness_probe.is_some()),
                ("readinessProbe", container.readiness_probe.is_some()),
                ("startupProbe", container.startup_probe.is_some()),
            ] {
                if given {
                    errors.forbidden(
                        &path.child(field),
                        "may not be set for init containers without restartPolicy=Always",
                    );
                }
            }
            if let Some(policies) = container.resize_policy.as_ref().filter(|list| !list.is_empty()) {
                let shown = object::json_of(policies);
                errors.invalid(&path.child("resizePolicy"), &shown, "must not be set for init containers");
            }
        }
        // Init containers run one after another, so host ports are checked for conflicts within each container only.
        host_port_conflicts(errors, &path, std::slice::from_ref(container));
    }
}

/// Validates a container's own restart policy and its rules for exit codes.
fn restart_rules(errors: &mut FieldErrors, path: &Path<'_>, container: &Container) {
    let at_policy = path.child("restartPolicy");
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    match &container.restart_policy {
        Some(policy) => errors.one_of(&at_policy, policy, &["Always", "OnFailure", "Never"]),
        None if rules.is_empty() => {}
        None => errors.required(&at_policy, "must specify restartPolicy when restart rules are used"),
    }
    let list = path.child("restartPolicyRules");
    if rules.len() > MAX_RESTART_RULES {
        errors.too_many(&list, rules.len(), MAX_RESTART_RULES);
    }
    for (path, rule) in list.each(rules.iter()) {
        errors.one_of(&path.child("action"), &rule.action, &["Restart", "RestartAllContainers"]);
        let path = path.child("exitCodes");
        let Some(codes) = &rule.exit_codes else {
            errors.required(&path, "must be specified");
            continue;
        };
        errors.one_of(&path.child("operator"), &codes.operator, &["In", "NotIn"]);
        let count = codes.values.as_ref().map_or(0, Vec::len);
        if count > MAX_EXIT_CODES {
            errors.too_many(&path.child("values"), count, MAX_EXIT_CODES);
        }
    }
}

fn probes(errors: &mut FieldErrors, path: &Path<'_>, container: &Container) {
    if let Some(liveness) = &container.liveness_probe {
        probe::single_success(errors, &path.child("livenessProbe"), liveness);
    }
    if let Some(readiness) = &container.readiness_probe {
        probe::readiness(errors, &path.child("readinessProbe"), readiness);
    }
    if let Some(startup) = &container.startup_probe {
        probe::single_success(errors, &path.child("startupProbe"), startup);
    }
}

/// Validates the rules of all containers, including ephemeral ones.
pub(crate) fn any_container(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    container: &Container,
    pod: &PodContext<'_>,
) {
    if container.name.is_empty() {
        errors.required(&path.child("name"), "");
    } else {
        errors.invalid_each(&path.child("name"), &container.name, names::dns_1123_label(&container.name));
    }
    let image = container.image.as_deref().unwrap_or_default();
    // Templates may have a blank image, which is replaced before pods are created.
    if pod.is_pod || image.is_empty() {
        self::image(errors, &path.child("image"), image);
    }
    errors.required_one_of(
        &path.child("terminationMessagePolicy"),
        container.termination_message_policy.as_deref(),
        &["FallbackToLogsOnError", "File"],
    );
    ports(errors, &path.child("ports"), container.ports.as_deref().unwrap_or_default());
    environment::variables(errors, &path.child("env"), container.env.as_deref().unwrap_or_default());
    environment::sources(errors, &path.child("envFrom"), container.env_from.as_deref().unwrap_or_default());
    volumes::mounts(errors, path, container, pod);
    errors.required_one_of(
        &path.child("imagePullPolicy"),
        container.image_pull_policy.as_deref(),
        PULL_POLICIES,
    );
    if let Some(requirements) = &container.resources {
        resources::requirements(errors, &path.child("resources"), requirements, &pod.claims);
    }
    let policies = container.resize_policy.as_deref().unwrap_or_default();
    resize_policies(errors, &path.child("resizePolicy"), policies, pod.restart_policy);
    if let Some(context) = &container.security_context {
        security::of_container(errors, &path.child("securityContext"), context, pod.host_users);
    }
    for (field, list) in [("command", &container.command), ("args", &container.args)] {
        // System calls end a text at NUL, so that a different command would run.
        for (i, text) in list.iter().flatten().enumerate().filter(|(_, text)| text.contains('\0')) {
            errors.invalid(&path.child(field).index(i), text, "must not contain a NUL character");
        }
    }
}

/// Validates an image reference, also when an update changes it.
pub fn image(errors: &mut FieldErrors, path: &Path<'_>, image: &str) {
    if image.is_empty() {
        errors.required(path, "");
    } else if image.trim() != image {
        errors.invalid(path, image, "must not have leading or trailing whitespace");
    }
}

fn ports(errors: &mut FieldErrors, path: &Path<'_>, list: &[ContainerPort]) {
    let mut seen = HashSet::new();
    for (path, port) in path.each(list.iter()) {
        if let Some(name) = port.name.as_ref().filter(|n| !n.is_empty()) {
            let wrong = names::port_name(name);
            if !wrong.is_empty() {
                errors.invalid_each(&path.child("name"), name, wrong);
            } else if !seen.insert(name) {
                errors.duplicate(&path.child("name"), name);
            }
        }
        if port.container_port == 0 {
            errors.required(&path.child("containerPort"), "");
        } else {
            let wrong = names::port_number(port.container_port.into());
            errors.invalid_each(&path.child("containerPort"), &port.container_port, wrong);
        }
        if let Some(host_port) = port.host_port.filter(|p| *p != 0) {
            let at = path.child("hostPort");
            errors.invalid_each(&at, &host_port, names::port_number(host_port.into()));
        }
        errors.required_one_of(&path.child("protocol"), port.protocol.as_deref(), PROTOCOLS);
        errors.optional_name(&path.child("hostIP"), port.host_ip.as_deref(), names::ip);
    }
}

/// In a pod on the host network, container ports are also host ports, and a different host port is an error. Templates
/// may leave the host port out. `path` is that of the list of containers.
pub(crate) fn host_network_ports(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    list: &[Container],
    pod: &PodContext<'_>,
) {
    for (i, container) in list.iter().enumerate().filter(|_| pod.host_network) {
        let path = path.index(i);
        let path = path.child("ports");
        for (i, port) in container.ports.iter().flatten().enumerate() {
            let host_port = port.host_port.unwrap_or(0);
            if (pod.is_pod || host_port != 0) && host_port != port.container_port {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&path.index(i).child("hostPort"), &host_port, detail);
            }
        }
    }
}

/// Refuses two equal host ports; `path` is that of the list of containers.
fn host_port_conflicts(errors: &mut FieldErrors, path: &Path<'_>, list: &[Container]) {
    let mut seen = HashSet::new();
    for (i, container) in list.iter().enumerate() {
        let path = path.index(i);
        let path = path.child("ports");
        for (i, port) in container.ports.iter().flatten().enumerate() {
            let Some(host_port) = port.host_port.filter(|p| *p != 0) else { continue };
            let key = format!(
                "{}/{}/{host_port}",
                port.protocol.as_deref().unwrap_or_default(),
                port.host_ip.as_deref().unwrap_or_default()
            );
            if !seen.insert(key.clone()) {
                errors.duplicate(&path.index(i).child("hostPort"), &key);
            }
        }
    }
}

/// Validates `resizePolicy`: the restart that resizing each resource requires.
fn resize_policies(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    list: &[ContainerResizePolicy],
    pod_restart_policy: Option<&str>,
) {
    let mut seen = std::collections::HashSet::new();
    for (i, policy) in list.iter().enumerate() {
        let (resource, restart) = (policy.resource_name.as_str(), policy.restart_policy.as_str());
        errors.unique(&mut seen, &path.index(i), resource);
        errors.required_one_of(path, Some(resource), &RESIZABLE);
        errors.required_one_of(path, Some(restart), RESIZE_POLICIES);
        if pod_restart_policy == Some("Never") && restart != "NotRequired" {
            errors.invalid(path, restart, "must be 'NotRequired' when `restartPolicy` is 'Never'");
        }
    }
}
