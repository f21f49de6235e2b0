//! Rules of pods: of new ones, of statuses and of bindings. The rules of updates are in `update`.

use k8s_openapi::api::core::v1::{Binding, ContainerStatus, Pod, PodSpec};

use apimachinery::validate::{FieldErrors, Path, names, pod_annotations, pod_spec};
use object::pod::{can_restart_all, restart_rule};
use object::well_known::annotation::POD_DELETION_COST;

/// Returns the spec; empty if there is none.
pub(super) fn spec_of(pod: &Pod) -> &PodSpec {
    pod.spec.as_ref().unwrap_or(&pod_spec::EMPTY)
}

/// Validates a pod by the rules for new and existing pods.
pub(crate) fn pod(errors: &mut FieldErrors, pod: &Pod) {
    let spec = spec_of(pod);
    let annotations = pod.metadata.annotations.as_ref();
    pod_annotations::annotations(errors, &Path::root("metadata.annotations"), annotations, spec);
    pod_spec::pod_spec(errors, &Path::root("spec"), spec, Some(&pod.metadata));
    if spec.service_account_name.as_deref().unwrap_or_default().is_empty() {
        no_tokens(errors, spec);
    }
}

/// Refuses service account tokens in a pod without a service account.
fn no_tokens(errors: &mut FieldErrors, spec: &PodSpec) {
    let list = Path::root("spec.volumes");
    for (i, volume) in spec.volumes.iter().flatten().enumerate() {
        let path = list.index(i);
        let list = path.child("projected.sources");
        let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        for (i, _) in sources.enumerate().filter(|(_, source)| source.service_account_token.is_some()) {
            let detail = "must not be specified when serviceAccountName is not set";
            errors.forbidden(&list.index(i).child("serviceAccountToken"), detail);
        }
    }
}

/// Requires that the deletion cost is a number in Kubernetes' notation: neither `+1` nor `01`.
pub(super) fn deletion_cost(errors: &mut FieldErrors, pod: &Pod) {
    let annotations = pod.metadata.annotations.as_ref();
    let Some(cost) = annotations.and_then(|a| a.get(POD_DELETION_COST)) else { return };
    let is_odd = cost.starts_with('+') || cost.starts_with('0') && cost != "0";
    if is_odd || cost.parse::<i32>().is_err() {
        errors.invalid(
            &Path::root("metadata.annotations").key(POD_DELETION_COST),
            cost,
            "must be a 32bit integer",
        );
    }
}

/// Validates a new pod.
pub(super) fn create(errors: &mut FieldErrors, new: &Pod) {
    deletion_cost(errors, new);
    pod(errors, new);
    let spec = spec_of(new);
    pod_annotations::match_fields(errors, &Path::root("spec"), new.metadata.annotations.as_ref(), spec);
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

/// Validates a write of the status by a kubelet or another client.
pub(super) fn status_update(errors: &mut FieldErrors, new: &Pod, old: &Pod) {
    let (Some(new_status), Some(old_status)) = (&new.status, &old.status) else { return };
    let path = Path::root("status");
    errors.optional_name(
        &path.child("nominatedNodeName"),
        new_status.nominated_node_name.as_deref(),
        names::dns_1123_subdomain,
    );
    let of_pod: Vec<&str> = new_status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str()).collect();
    addresses(errors, &path.child("podIPs"), &of_pod);
    let of_host: Vec<&str> = new_status.host_ips.iter().flatten().map(|ip| ip.ip.as_str()).collect();
    addresses(errors, &path.child("hostIPs"), &of_host);
    if let Some(first) = of_host.first().filter(|first| new_status.host_ip.as_deref() != Some(**first)) {
        errors.invalid(&path.child("hostIPs").index(0).child("ip"), *first, "must be equal to `hostIP`");
    }
    let conditions = Path::root("metadata.conditions");
    for (i, condition) in new_status.conditions.iter().flatten().enumerate() {
        // Kubernetes' error names the field in this place, with this spelling.
        let path = conditions.index(i);
        errors.invalid_each(&path.child("Type"), &condition.type_, names::qualified_name(&condition.type_));
    }
    no_resurrection(
        errors,
        &path.child("containerStatuses"),
        spec_of(old),
        new_status.container_statuses.as_deref().unwrap_or_default(),
        old_status.container_statuses.as_deref().unwrap_or_default(),
    );
}

/// Validates the IP addresses of a pod or its host: at most one of each family.
fn addresses(errors: &mut FieldErrors, path: &Path<'_>, list: &[&str]) {
    for (i, ip) in list.iter().enumerate() {
        errors.invalid_each(&path.index(i), *ip, names::ip(ip));
    }
    if let [first, second, rest @ ..] = list
        && (!rest.is_empty() || first.contains(':') == second.contains(':'))
    {
        let shown: Vec<_> = list.iter().map(|ip| serde_json::json!({"ip": ip})).collect();
        let detail = "may specify no more than one IP for each IP family";
        errors.invalid(path, &serde_json::Value::Array(shown), detail);
    }
    for (i, ip) in list.iter().enumerate().filter(|(i, ip)| list[..*i].contains(*ip)) {
        errors.duplicate(&path.index(i), &serde_json::json!({"ip": ip}));
    }
}

/// A container that has terminated for good cannot change its state any more.
fn no_resurrection(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    spec: &PodSpec,
    new: &[ContainerStatus],
    old: &[ContainerStatus],
) {
    let of_pod = spec.restart_policy.as_deref().unwrap_or("Always");
    if of_pod == "Always" || can_restart_all(spec) {
        return;
    }
    let ended = |status: &ContainerStatus| {
        status.state.as_ref().and_then(|s| s.terminated.as_ref()).map(|t| t.exit_code)
    };
    for (i, status) in new.iter().enumerate() {
        let Some(exit_code) = old.iter().find(|o| o.name == status.name).and_then(ended) else { continue };
        let container = spec.containers.iter().find(|container| container.name == status.name);
        let own = container.and_then(|container| container.restart_policy.as_deref());
        let has_rule = container.is_some_and(|container| restart_rule(container, exit_code).is_some());
        let may_restart = match own.unwrap_or(of_pod) {
            "Always" => true,
            "OnFailure" => has_rule || exit_code != 0,
            _ => has_rule,
        };
        if !may_restart && ended(status).is_none() {
            errors
                .forbidden(&path.index(i).child("state"), "may not be transitioned to non-terminated state");
        }
    }
}

/// Validates the assignment of a pod to a node.
pub(crate) fn binding(errors: &mut FieldErrors, binding: &Binding) {
    let kind = binding.target.kind.as_deref().unwrap_or_default();
    if !kind.is_empty() && kind != "Node" {
        errors.unsupported(&Path::root("target.kind"), kind, &["Node", "<empty>"]);
    }
    if binding.target.name.as_deref().unwrap_or_default().is_empty() {
        errors.required(&Path::root("target.name"), "");
    }
}
