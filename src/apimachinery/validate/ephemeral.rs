//! Rules of ephemeral containers: the fields they may not have, and that they can only be added (EPH-1).

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod, PodSpec};

use super::container;
use super::field::{FieldErrors, Path};
use super::pod_context::PodContext;
use object::pod::as_container;

const FORBIDDEN: &str = "cannot be set for an Ephemeral Container";

/// Validates the ephemeral containers of a pod spec at `path`. `others` has the names of the other containers.
pub fn containers(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    spec: &PodSpec,
    pod: &PodContext<'_>,
    others: &HashSet<&str>,
) {
    let path = path.child("ephemeralContainers");
    let mut seen = others.clone();
    for (path, given) in path.each(spec.ephemeral_containers.iter().flatten()) {
        let plain = Container { volume_devices: given.volume_devices.clone(), ..as_container(given) };
        container::any_container(errors, &path, &plain, pod);
        if !given.name.is_empty() && !seen.insert(given.name.as_str()) {
            errors.duplicate(&path.child("name"), &given.name);
        }
        if let Some(target) = given.target_container_name.as_ref().filter(|t| !t.is_empty())
            && !others.contains(target.as_str())
        {
            errors.not_found(&path.child("targetContainerName"), target);
        }
        forbidden_fields(errors, &path, given);
    }
}

fn forbidden_fields(errors: &mut FieldErrors, path: &Path<'_>, given: &EphemeralContainer) {
    let resources = given
        .resources
        .as_ref()
        .is_some_and(|r| r.limits.is_some() || r.requests.is_some() || r.claims.is_some());
    for (field, is_given) in [
        ("lifecycle", given.lifecycle.is_some()),
        ("livenessProbe", given.liveness_probe.is_some()),
        ("readinessProbe", given.readiness_probe.is_some()),
        ("startupProbe", given.startup_probe.is_some()),
        ("ports", given.ports.as_ref().is_some_and(|p| !p.is_empty())),
        ("resources", resources),
        ("restartPolicy", given.restart_policy.is_some()),
        ("restartPolicyRules", given.restart_policy_rules.as_ref().is_some_and(|rules| !rules.is_empty())),
        ("resizePolicy", given.resize_policy.as_ref().is_some_and(|p| !p.is_empty())),
    ] {
        if is_given {
            errors.forbidden(&path.child(field), FORBIDDEN);
        }
    }
    for (i, mount) in given.volume_mounts.iter().flatten().enumerate() {
        let mounts = path.child("volumeMounts");
        let path = mounts.index(i);
        for (field, text) in [("subPath", &mount.sub_path), ("subPathExpr", &mount.sub_path_expr)] {
            if text.as_ref().is_some_and(|t| !t.is_empty()) {
                errors.forbidden(&path.child(field), FORBIDDEN);
            }
        }
    }
}

/// Validates an update through the `ephemeralcontainers` subresource: existing containers are immutable.
pub fn update(errors: &mut FieldErrors, new: &Pod, old: &Pod) {
    let of = |pod: &Pod| pod.spec.as_ref().and_then(|s| s.ephemeral_containers.clone()).unwrap_or_default();
    let (new, old) = (of(new), of(old));
    let path = Path::root("spec.ephemeralContainers");
    for before in &old {
        match new.iter().find(|c| c.name == before.name) {
            None => errors.forbidden(
                &path,
                format!("existing ephemeral containers {:?} may not be removed\n", before.name),
            ),
            Some(after) if after != before => errors.forbidden(
                &path,
                format!("existing ephemeral containers {:?} may not be changed\n", before.name),
            ),
            Some(_) => {}
        }
    }
}
