//! Rules of a pod spec, in pods and in the templates of workloads.

use k8s_openapi::api::core::v1::{HostAlias, PodDNSConfig, PodSecurityContext, PodSpec, PodTemplateSpec};

use super::field::{FieldErrors, Path};
use super::surroundings::Surroundings;
use super::{affinity, container, ephemeral, metadata, names, placement, resources, sysctls, volumes};

const DNS_POLICIES: &[&str] = &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];

const ACTIVE_DEADLINE: &str = "must be between 1 and 2147483647, inclusive";

/// What a pod without a spec is taken for.
pub(crate) static EMPTY: std::sync::LazyLock<PodSpec> = std::sync::LazyLock::new(PodSpec::default);

/// A workload's template: labels, annotations and spec.
pub(crate) fn template(errors: &mut FieldErrors, path: &Path<'_>, template: &PodTemplateSpec) {
    if let Some(meta) = &template.metadata {
        let path = path.child("metadata");
        metadata::labels(errors, &path.child("labels"), meta.labels.as_ref());
        metadata::annotations(errors, &path.child("annotations"), meta.annotations.as_ref());
    }
    let spec = template.spec.as_ref().unwrap_or(&EMPTY);
    let path = path.child("spec");
    pod_spec(errors, &path, spec);
    if spec.ephemeral_containers.as_ref().is_some_and(|e| !e.is_empty()) {
        errors.forbidden(
            &path.child("ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        );
    }
}

/// A pod spec anywhere.
pub(crate) fn pod_spec(errors: &mut FieldErrors, path: &Path<'_>, spec: &PodSpec) {
    let list = spec.volumes.as_deref().unwrap_or_default();
    let pod = Surroundings {
        volumes: volumes::volumes(errors, &path.child("volumes"), list),
        host_network: spec.host_network == Some(true),
        grace_seconds: spec.termination_grace_period_seconds.unwrap_or(0),
        restart_policy: spec.restart_policy.as_deref(),
        os: spec.os.as_ref().map(|os| os.name.as_str()),
    };
    let mut names_seen = container::app_containers(errors, &path.child("containers"), &spec.containers, &pod);
    container::init_containers(
        errors,
        &path.child("initContainers"),
        spec.init_containers.as_deref().unwrap_or_default(),
        &pod,
        &mut names_seen,
    );
    ephemeral::containers(errors, path, spec, &pod, &names_seen);
    errors.required_one_of(
        &path.child("restartPolicy"),
        spec.restart_policy.as_deref(),
        &["Always", "OnFailure", "Never"],
    );
    errors.required_one_of(&path.child("dnsPolicy"), spec.dns_policy.as_deref(), DNS_POLICIES);
    metadata::labels(errors, &path.child("nodeSelector"), spec.node_selector.as_ref());
    if let Some(context) = &spec.security_context {
        security_context(errors, &path.child("securityContext"), context);
        sysctls::sysctls(errors, &path.child("securityContext.sysctls"), spec);
    }
    if let Some(affinity) = &spec.affinity {
        affinity::affinity(errors, &path.child("affinity"), affinity);
    }
    if let Some(config) = &spec.dns_config {
        dns_config(errors, &path.child("dnsConfig"), config);
    } else if spec.dns_policy.as_deref() == Some("None") {
        errors.required(
            &path.child("dnsConfig.nameservers"),
            "must provide at least one DNS nameserver when `dnsPolicy` is None",
        );
    }
    placement::gates(errors, path, spec);
    let spread = spec.topology_spread_constraints.as_deref().unwrap_or_default();
    placement::spread_constraints(errors, &path.child("topologySpreadConstraints"), spread);
    names_of_others(errors, path, spec);
    if let Some(seconds) = spec.active_deadline_seconds
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        errors.invalid(&path.child("activeDeadlineSeconds"), &seconds, ACTIVE_DEADLINE);
    }
    for (field, text) in [("hostname", &spec.hostname), ("subdomain", &spec.subdomain)] {
        if let Some(text) = text.as_ref().filter(|t| !t.is_empty()) {
            errors.invalid_each(&path.child(field), text, names::dns_1123_label(text));
        }
    }
    let tolerations = path.child("tolerations");
    for (i, toleration) in spec.tolerations.iter().flatten().enumerate() {
        placement::toleration(errors, &tolerations.index(i), toleration);
    }
    host_aliases(errors, &path.child("hostAliases"), spec.host_aliases.as_deref().unwrap_or_default());
    if let Some(policy) = &spec.preemption_policy {
        errors.one_of(&path.child("preemptionPolicy"), policy, &["Never", "PreemptLowerPriority"]);
    }
    resources::amounts(errors, &path.child("overhead"), spec.overhead.as_ref());
    if let Some(os) = &spec.os {
        errors.required_one_of(&path.child("os.name"), Some(&os.name), &["linux", "windows"]);
    }
}

/// Other objects the spec names.
fn names_of_others(errors: &mut FieldErrors, path: &Path<'_>, spec: &PodSpec) {
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

fn security_context(errors: &mut FieldErrors, path: &Path<'_>, context: &PodSecurityContext) {
    for (field, id) in [
        ("runAsUser", context.run_as_user),
        ("runAsGroup", context.run_as_group),
        ("fsGroup", context.fs_group),
    ] {
        container::user_or_group(errors, &path.child(field), id);
    }
    let groups = path.child("supplementalGroups");
    for (i, group) in context.supplemental_groups.iter().flatten().enumerate() {
        container::user_or_group(errors, &groups.index(i), Some(*group));
    }
    if let Some(policy) = &context.fs_group_change_policy {
        errors.one_of(&path.child("fsGroupChangePolicy"), policy, &["Always", "OnRootMismatch"]);
    }
    if let Some(policy) = &context.supplemental_groups_policy {
        errors.one_of(&path.child("supplementalGroupsPolicy"), policy, &["Merge", "Strict"]);
    }
    if let Some(profile) = &context.seccomp_profile {
        errors.required_one_of(
            &path.child("seccompProfile.type"),
            Some(&profile.type_),
            &["Localhost", "RuntimeDefault", "Unconfined"],
        );
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

fn dns_config(errors: &mut FieldErrors, path: &Path<'_>, config: &PodDNSConfig) {
    const MAX_SERVERS: usize = 3;
    const MAX_SEARCHES: usize = 32;
    let servers = config.nameservers.as_deref().unwrap_or_default();
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
    for (i, search) in searches.iter().enumerate() {
        let name = search.strip_suffix('.').filter(|s| !s.is_empty()).unwrap_or(search);
        if name != "." {
            errors.invalid_each(&path.child("searches").index(i), search, names::dns_1123_subdomain(name));
        }
    }
    let options = path.child("options");
    for (i, option) in config.options.iter().flatten().enumerate() {
        if option.name.as_deref().unwrap_or_default().is_empty() {
            errors.required(&options.index(i), "must not be empty");
        }
    }
}
