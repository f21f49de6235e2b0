//! Defaults of pod specs, in pods and in the templates of workloads.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, HTTPGetAction, Lifecycle, PodSpec, Probe, ResourceRequirements,
};

use super::{image, set, set_text, volumes};
use object::resources::{is_pod_level_resource, pod_level_resources, requests_of_containers};

/// Applies the defaults of any pod spec: that of a pod or of a workload's template.
pub fn apply_pod_spec_defaults(spec: &mut PodSpec) {
    set_text(&mut spec.dns_policy, "ClusterFirst");
    set_text(&mut spec.restart_policy, "Always");
    spec.security_context.get_or_insert_default();
    set(&mut spec.termination_grace_period_seconds, 30);
    set_text(&mut spec.scheduler_name, "default-scheduler");
    spec.volumes.iter_mut().flatten().for_each(volumes::volume);
    let host_network = spec.host_network == Some(true);
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        apply_container_defaults(container);
        if host_network {
            container.ports.iter_mut().flatten().for_each(host_port);
        }
    }
    for container in spec.ephemeral_containers.iter_mut().flatten() {
        image::pull_policy(container.image.as_deref(), &mut container.image_pull_policy);
        message_defaults(&mut container.termination_message_path, &mut container.termination_message_policy);
        container.resources.get_or_insert_default();
        container.env.iter_mut().flatten().for_each(env);
    }
}

/// Applies the defaults that pods get and templates do not.
pub fn apply_pod_only_defaults(spec: &mut PodSpec) {
    set(&mut spec.enable_service_links, true);
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        if let Some(resources) = &mut container.resources {
            requests_from_limits(resources);
        }
    }
    pod_level_requests(spec);
}

/// Sets missing requests of the pod as a whole: the sum of its containers' requests, or else its own limit.
fn pod_level_requests(spec: &mut PodSpec) {
    if pod_level_resources(spec).is_none() {
        return;
    }
    let of_containers = requests_of_containers(spec);
    let Some(whole) = &mut spec.resources else { return };
    let limits = whole.limits.clone().unwrap_or_default();
    let requests = whole.requests.get_or_insert_default();
    for (name, quantity) in of_containers.into_iter().chain(limits) {
        if is_pod_level_resource(&name) {
            requests.entry(name).or_insert(quantity);
        }
    }
}

fn apply_container_defaults(container: &mut Container) {
    image::pull_policy(container.image.as_deref(), &mut container.image_pull_policy);
    message_defaults(&mut container.termination_message_path, &mut container.termination_message_policy);
    container.resources.get_or_insert_default();
    for port in container.ports.iter_mut().flatten() {
        set_text(&mut port.protocol, "TCP");
    }
    for probe in [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe]
        .into_iter()
        .flatten()
    {
        apply_probe_defaults(probe);
    }
    if let Some(lifecycle) = &mut container.lifecycle {
        hooks(lifecycle);
    }
    container.env.iter_mut().flatten().for_each(env);
}

fn message_defaults(path: &mut Option<String>, policy: &mut Option<String>) {
    set_text(path, "/dev/termination-log");
    set_text(policy, "File");
}

fn host_port(port: &mut ContainerPort) {
    if port.host_port.unwrap_or(0) == 0 && port.container_port != 0 {
        port.host_port = Some(port.container_port);
    }
}

fn requests_from_limits(resources: &mut ResourceRequirements) {
    if let Some(limits) = &resources.limits
        && !limits.is_empty()
    {
        let requests = resources.requests.get_or_insert_default();
        for (name, limit) in limits {
            requests.entry(name.clone()).or_insert_with(|| limit.clone());
        }
    }
}

fn apply_probe_defaults(probe: &mut Probe) {
    // Kubernetes treats zero as an absent field.
    for (field, default) in [
        (&mut probe.timeout_seconds, 1),
        (&mut probe.period_seconds, 10),
        (&mut probe.success_threshold, 1),
        (&mut probe.failure_threshold, 3),
    ] {
        if field.unwrap_or(0) == 0 {
            *field = Some(default);
        }
    }
    if let Some(get) = &mut probe.http_get {
        http_get(get);
    }
    if let Some(grpc) = &mut probe.grpc {
        set(&mut grpc.service, "");
    }
}

fn hooks(lifecycle: &mut Lifecycle) {
    for handler in [&mut lifecycle.post_start, &mut lifecycle.pre_stop].into_iter().flatten() {
        if let Some(get) = &mut handler.http_get {
            http_get(get);
        }
    }
}

fn http_get(get: &mut HTTPGetAction) {
    set_text(&mut get.path, "/");
    set_text(&mut get.scheme, "HTTP");
}

/// Fills in the defaults of an environment variable.
pub fn env(variable: &mut EnvVar) {
    if let Some(source) = &mut variable.value_from {
        if let Some(field) = &mut source.field_ref {
            set_text(&mut field.api_version, "v1");
        }
        if let Some(resource) = &mut source.resource_field_ref {
            volumes::divisor(resource);
        }
    }
}

/// Applies the defaults of a pod template.
pub fn template(template: &mut PodTemplateSpec) {
    apply_pod_spec_defaults(template.spec.get_or_insert_default());
}
