//! Rules of a pod spec, in pods and in the templates of workloads.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{HostAlias, PodDNSConfig, PodResourceClaim, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::field::{FieldErrors, Path};
use super::pod_context::PodContext;
use super::{
    affinity, container, ephemeral, metadata, names, placement, pod_annotations, resources, security, volumes,
};

const DNS_POLICIES: &[&str] = &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];

const ACTIVE_DEADLINE: &str = "must be between 1 and 2147483647, inclusive";

/// The spec of pods without one.
pub static EMPTY: std::sync::LazyLock<PodSpec> = std::sync::LazyLock::new(PodSpec::default);

/// Validates a workload's template: labels, annotations and spec.
pub fn template(errors: &mut FieldErrors, path: &Path<'_>, template: &PodTemplateSpec) {
    if let Some(meta) = &template.metadata {
        let path = path.child("metadata");
        metadata::labels(errors, &path.child("labels"), meta.labels.as_ref());
        metadata::annotations(errors, &path.child("annotations"), meta.annotations.as_ref());
    }
    let spec = template.spec.as_ref().unwrap_or(&EMPTY);
    let annotations = template.metadata.as_ref().and_then(|meta| meta.annotations.as_ref());
    pod_annotations::annotations(errors, &path.child("annotations"), annotations, spec);
    let path = path.child("spec");
    pod_spec(errors, &path, spec, None);
    pod_annotations::match_fields(errors, &path, annotations, spec);
    if spec.ephemeral_containers.as_ref().is_some_and(|e| !e.is_empty()) {
        errors.forbidden(
            &path.child("ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        );
    }
}

/// Validates a pod spec in a pod or a template; `pod` is the pod's metadata, and `None` in a template.
pub fn pod_spec(errors: &mut FieldErrors, path: &Path<'_>, spec: &PodSpec, pod: Option<&ObjectMeta>) {
    let list = spec.volumes.as_deref().unwrap_or_default();
    let claims = spec.resource_claims.as_deref().unwrap_or_default();
    let pod = PodContext {
        volumes: volumes::volumes(errors, &path.child("volumes"), list, pod),
        claims: claims.iter().map(|claim| claim.name.as_str()).filter(|name| !name.is_empty()).collect(),
        host_network: spec.host_network == Some(true),
        host_users: spec.host_users != Some(false),
        is_pod: pod.is_some(),
        grace_seconds: spec.termination_grace_period_seconds.unwrap_or(0),
        restart_policy: spec.restart_policy.as_deref(),
        os: spec.os.as_ref().map(|os| os.name.as_str()),
    };
    resource_claims(errors, &path.child("resourceClaims"), claims);
    let mut names_seen = container::app_containers(errors, &path.child("containers"), &spec.containers, &pod);
    container::init_containers(
        errors,
        &path.child("initContainers"),
        spec.init_containers.as_deref().unwrap_or_default(),
        &pod,
        &mut names_seen,
    );
    ephemeral::containers(errors, path, spec, &pod, &names_seen);
    resources::of_pod(errors, &path.child("resources"), spec);
    container::host_network_ports(errors, &path.child("containers"), &spec.containers, &pod);
    errors.required_one_of(
        &path.child("restartPolicy"),
        spec.restart_policy.as_deref(),
        &["Always", "OnFailure", "Never"],
    );
    errors.required_one_of(&path.child("dnsPolicy"), spec.dns_policy.as_deref(), DNS_POLICIES);
    metadata::labels(errors, &path.child("nodeSelector"), spec.node_selector.as_ref());
    security::of_pod(errors, path, spec);
    if let Some(affinity) = &spec.affinity {
        affinity::affinity(errors, &path.child("affinity"), affinity);
    }
    dns_config(errors, &path.child("dnsConfig"), spec.dns_config.as_ref(), spec.dns_policy.as_deref());
    placement::gates(errors, path, spec);
    let spread = spec.topology_spread_constraints.as_deref().unwrap_or_default();
    placement::spread_constraints(errors, &path.child("topologySpreadConstraints"), spread);
    security::host_processes(errors, path, spec);
    security::host_users(errors, path, spec);
    validate_references(errors, path, spec);
    if let Some(seconds) = spec.active_deadline_seconds
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        errors.invalid(&path.child("activeDeadlineSeconds"), &seconds, ACTIVE_DEADLINE);
    }
    for (field, text) in [("hostname", &spec.hostname), ("subdomain", &spec.subdomain)] {
        errors.optional_name(&path.child(field), text.as_deref(), names::dns_1123_label);
    }
    hostname_override(errors, path, spec);
    let tolerations = path.child("tolerations");
    for (i, toleration) in spec.tolerations.iter().flatten().enumerate() {
        placement::toleration(errors, &tolerations.index(i), toleration);
    }
    host_aliases(errors, &path.child("hostAliases"), spec.host_aliases.as_deref().unwrap_or_default());
    if let Some(policy) = &spec.preemption_policy {
        errors.one_of(&path.child("preemptionPolicy"), policy, &["Never", "PreemptLowerPriority"]);
    }
    resources::overhead(errors, &path.child("overhead"), spec.overhead.as_ref());
    security::os(errors, path, spec);
}

/// Validates the host name override, which excludes `hostNetwork` and `setHostnameAsFQDN`.
fn hostname_override(errors: &mut FieldErrors, path: &Path<'_>, spec: &PodSpec) {
    const MAX_HOSTNAME: usize = 64;
    let Some(name) = &spec.hostname_override else { return };
    let at = path.child("hostnameOverride");
    errors.invalid_each(&at, name, names::dns_1123_subdomain(name));
    if name.len() > MAX_HOSTNAME {
        errors.too_long(&at, MAX_HOSTNAME);
    }
    for (field, is_set) in
        [("hostNetwork", spec.host_network), ("setHostnameAsFQDN", spec.set_hostname_as_fqdn)]
    {
        if is_set == Some(true) {
            errors.forbidden(&path.child(field), "may not be true when `hostnameOverride` is set");
        }
    }
}

/// Validates the resource claims: each is an existing claim or made from a template.
fn resource_claims(errors: &mut FieldErrors, list: &Path<'_>, claims: &[PodResourceClaim]) {
    let mut seen = HashSet::new();
    for (path, claim) in list.each(claims.iter()) {
        if claim.name.is_empty() {
            errors.required(&path.child("name"), "");
        } else if seen.insert(&claim.name) {
            errors.invalid_each(&path.child("name"), &claim.name, names::dns_1123_label(&claim.name));
        } else {
            errors.duplicate(&path.child("name"), &claim.name);
        }
        let detail = match (&claim.resource_claim_name, &claim.resource_claim_template_name) {
            (Some(_), Some(_)) => {
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            }
            (None, None) => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            _ => "",
        };
        if !detail.is_empty() {
            errors.invalid(&path, &object::json_of(claim), detail);
        }
        for (field, name) in [
            ("resourceClaimName", &claim.resource_claim_name),
            ("resourceClaimTemplateName", &claim.resource_claim_template_name),
        ] {
            if let Some(name) = name {
                errors.invalid_each(&path.child(field), name, names::dns_1123_subdomain(name));
            }
        }
    }
}

/// Validates the names of other objects in the spec.
fn validate_references(errors: &mut FieldErrors, path: &Path<'_>, spec: &PodSpec) {
    for (field, name) in [
        ("serviceAccountName", &spec.service_account_name),
        ("nodeName", &spec.node_name),
        ("priorityClassName", &spec.priority_class_name),
        ("runtimeClassName", &spec.runtime_class_name),
        ("schedulerName", &spec.scheduler_name),
    ] {
        match name.as_deref() {
            None | Some("") => {}
            Some(name) if field == "schedulerName" => {
                errors.invalid_each(&path.child(field), name, names::qualified_name(name));
            }
            Some(name) => errors.invalid_each(&path.child(field), name, names::dns_1123_subdomain(name)),
        }
    }
}

fn host_aliases(errors: &mut FieldErrors, path: &Path<'_>, list: &[HostAlias]) {
    for (i, alias) in list.iter().enumerate() {
        let path = path.index(i);
        errors.invalid_each(&path.child("ip"), &alias.ip, names::ip(&alias.ip));
        let hostnames = path.child("hostnames");
        for (i, name) in alias.hostnames.iter().flatten().enumerate() {
            errors.invalid_each(&hostnames.index(i), name, names::dns_1123_subdomain(name));
        }
    }
}

fn dns_config(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    config: Option<&PodDNSConfig>,
    policy: Option<&str>,
) {
    const MAX_SERVERS: usize = 3;
    const MAX_SEARCHES: usize = 32;
    const MAX_SEARCH_CHARACTERS: usize = 2048;
    let Some(config) = config else {
        if policy == Some("None") {
            errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        return;
    };
    let servers = config.nameservers.as_deref().unwrap_or_default();
    if policy == Some("None") && servers.is_empty() {
        let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        return errors.required(&path.child("nameservers"), detail);
    }
    if servers.len() > MAX_SERVERS {
        errors.invalid(
            &path.child("nameservers"),
            &serde_json::json!(servers),
            format!("must not have more than {MAX_SERVERS} nameservers"),
        );
    }
    for (i, server) in servers.iter().enumerate() {
        errors.invalid_each(&path.child("nameservers").index(i), server, names::ip(server));
    }
    let searches = config.searches.as_deref().unwrap_or_default();
    if searches.len() > MAX_SEARCHES {
        errors.invalid(
            &path.child("searches"),
            &serde_json::json!(searches),
            format!("must not have more than {MAX_SEARCHES} search paths"),
        );
    }
    // The length includes the blanks between the domains.
    let characters = searches.iter().map(String::len).sum::<usize>() + searches.len().saturating_sub(1);
    if characters > MAX_SEARCH_CHARACTERS {
        let detail = format!(
            "must not have more than {MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        );
        errors.invalid(&path.child("searches"), &serde_json::json!(searches), detail);
    }
    for (i, search) in searches.iter().enumerate().filter(|(_, search)| *search != ".") {
        let name = search.strip_suffix('.').unwrap_or(search);
        let wrong = names::dns_1123_subdomain_with_underscore(name);
        errors.invalid_each(&path.child("searches").index(i), name, wrong);
    }
    let options = path.child("options");
    for (i, option) in config.options.iter().flatten().enumerate() {
        if option.name.as_deref().unwrap_or_default().is_empty() {
            errors.required(&options.index(i), "must not be empty");
        }
    }
}
