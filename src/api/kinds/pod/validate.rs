//! Rules of pods: new ones, statuses, bindings. What an update may change is in `update`.

use k8s_openapi::api::core::v1::{Binding, ContainerStatus, Pod, PodSpec};

use crate::validate::{FieldErrors, Path, names, pod_spec};

/// The spec, empty when there is none.
pub(super) fn spec_of(pod: &Pod) -> &PodSpec {
    pod.spec.as_ref().unwrap_or(&pod_spec::EMPTY)
}

/// What holds for pods at any time.
pub(crate) fn pod(errors: &mut FieldErrors, pod: &Pod) {
    pod_spec::pod_spec(errors, &Path::root("spec"), spec_of(pod));
}

/// Which pods of a ReplicaSet go first when there are too many: those that cost less.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The deletion cost of a pod, if it has one, is a number as Kubernetes reads it: neither `+1` nor `01`.
pub(super) fn deletion_cost(errors: &mut FieldErrors, pod: &Pod) {
    let annotations = pod.metadata.annotations.as_ref();
    let Some(cost) = annotations.and_then(|a| a.get(DELETION_COST)) else { return };
    let is_odd = cost.starts_with('+') || cost.starts_with('0') && cost != "0";
    if is_odd || cost.parse::<i32>().is_err() {
        errors.invalid(
            &Path::root("metadata.annotations").key(DELETION_COST),
            cost,
            "must be a 32bit integer",
        );
    }
}

/// What holds for new pods.
pub(super) fn create(errors: &mut FieldErrors, new: &Pod) {
    deletion_cost(errors, new);
    pod(errors, new);
    let spec = spec_of(new);
    if spec.ephemeral_containers.as_ref().is_some_and(|e| !e.is_empty()) {
        errors.forbidden(&Path::root("spec.ephemeralContainers"), "cannot be set on create");
    }
    let gated = spec.scheduling_gates.as_ref().is_some_and(|g| !g.is_empty());
    if gated && spec.node_name.as_ref().is_some_and(|n| !n.is_empty()) {
        errors.forbidden(
            &Path::root("spec.nodeName"),
            "cannot be set until all schedulingGates have been cleared",
        );
    }
}

/// What holds when a kubelet or another client writes the status.
pub(super) fn status_update(errors: &mut FieldErrors, new: &Pod, old: &Pod) {
    let (Some(new_status), Some(old_status)) = (&new.status, &old.status) else { return };
    let path = Path::root("status");
    if let Some(name) = new_status.nominated_node_name.as_ref().filter(|n| !n.is_empty()) {
        errors.invalid_each(&path.child("nominatedNodeName"), name, names::dns_1123_subdomain(name));
    }
    for (i, ip) in new_status.pod_ips.iter().flatten().enumerate() {
        errors.invalid_each(&path.child("podIPs").index(i), &ip.ip, names::ip(&ip.ip));
    }
    no_resurrection(
        errors,
        &path.child("containerStatuses"),
        spec_of(old),
        new_status.container_statuses.as_deref().unwrap_or_default(),
        old_status.container_statuses.as_deref().unwrap_or_default(),
    );
}

/// A container that ended for good stays ended.
fn no_resurrection(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    spec: &PodSpec,
    new: &[ContainerStatus],
    old: &[ContainerStatus],
) {
    let policy_of = |name: &str| {
        let own = spec.containers.iter().find(|c| c.name == name);
        own.and_then(|c| c.restart_policy.as_deref()).or(spec.restart_policy.as_deref()).unwrap_or("Always")
    };
    let ended = |status: &ContainerStatus| {
        status.state.as_ref().and_then(|s| s.terminated.as_ref()).map(|t| t.exit_code)
    };
    for (i, status) in new.iter().enumerate() {
        let Some(exit_code) = old.iter().find(|o| o.name == status.name).and_then(ended) else { continue };
        let may_restart = match policy_of(&status.name) {
            "Always" => true,
            "OnFailure" => exit_code != 0,
            _ => false,
        };
        if !may_restart && ended(status).is_none() {
            errors
                .forbidden(&path.index(i).child("state"), "may not be transitioned to non-terminated state");
        }
    }
}

/// What holds for an assignment of a pod to a node.
pub(crate) fn binding(errors: &mut FieldErrors, binding: &Binding) {
    let kind = binding.target.kind.as_deref().unwrap_or_default();
    if !kind.is_empty() && kind != "Node" {
        errors.unsupported(&Path::root("target.kind"), kind, &["Node", "<empty>"]);
    }
    if binding.target.name.as_deref().unwrap_or_default().is_empty() {
        errors.required(&Path::root("target.name"), "");
    }
}
