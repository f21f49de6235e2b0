//! Rules of Services of type LoadBalancer: their class, the client addresses they admit, and the port for health
//! checks.

use k8s_openapi::api::core::v1::{LoadBalancerStatus, ServiceSpec};

use apimachinery::validate::{FieldErrors, Path, names};

fn type_of(spec: &ServiceSpec) -> &str {
    spec.type_.as_deref().unwrap_or_default()
}

/// Retains the health check port while it is needed. Once the type is no longer LoadBalancer, drops the load balancer
/// fields that the update left unchanged.
pub(super) fn carry_over(new: &mut ServiceSpec, old: &ServiceSpec) {
    match (needs_health_check(new), needs_health_check(old)) {
        (true, true) if health_port(new).is_none() => new.health_check_node_port = old.health_check_node_port,
        (false, true) if health_port(new) == health_port(old) => new.health_check_node_port = None,
        _ => {}
    }
    if type_of(old) != "LoadBalancer" || type_of(new) == "LoadBalancer" {
        return;
    }
    if new.allocate_load_balancer_node_ports == old.allocate_load_balancer_node_ports {
        new.allocate_load_balancer_node_ports = None;
    }
    if new.load_balancer_class == old.load_balancer_class {
        new.load_balancer_class = None;
    }
}

/// Returns whether load balancers check the health of nodes. They do if the external traffic policy is `Local`, with
/// which only nodes with endpoints serve.
pub fn needs_health_check(spec: &ServiceSpec) -> bool {
    type_of(spec) == "LoadBalancer" && spec.external_traffic_policy.as_deref() == Some("Local")
}

/// Returns the port for health checks.
pub fn health_port(spec: &ServiceSpec) -> Option<i32> {
    spec.health_check_node_port.filter(|number| *number != 0)
}

const ONLY_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

/// The annotation for admitted client addresses; it is older than the field.
pub(super) const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// Validates the fields that only a load balancer may have; `annotation` is the value of [`SOURCE_RANGES`].
pub(super) fn errors(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    spec: &ServiceSpec,
    annotation: Option<&String>,
) {
    let is_balancer = type_of(spec) == "LoadBalancer";
    let ranges = spec.load_balancer_source_ranges.as_deref().unwrap_or_default();
    // The error has Kubernetes' spelling of the field.
    let of_ranges = path.child("LoadBalancerSourceRanges");
    let annotations = Path::root("metadata.annotations");
    let of_annotation = annotations.key(SOURCE_RANGES);
    // The field and the annotation both allow spaces around ranges.
    if !ranges.is_empty() {
        if !is_balancer {
            errors.forbidden(&of_ranges, ONLY_BALANCERS);
        }
        for (i, range) in ranges.iter().enumerate() {
            errors.invalid_each(&of_ranges.index(i), range.trim(), names::cidr(range.trim()));
        }
    } else if let Some(annotation) = annotation {
        if !is_balancer {
            errors.forbidden(&of_annotation, ONLY_BALANCERS);
        }
        for range in annotation.split(',').filter(|_| !annotation.trim().is_empty()) {
            errors.invalid_each(&of_annotation, range.trim(), names::cidr(range.trim()));
        }
    }
    if spec.allocate_load_balancer_node_ports.is_some() && !is_balancer {
        errors.forbidden(&path.child("allocateLoadBalancerNodePorts"), ONLY_BALANCERS);
    }
    if let Some(class) = &spec.load_balancer_class {
        let path = path.child("loadBalancerClass");
        if is_balancer {
            errors.invalid_each(&path, class, names::qualified_name(class));
        } else {
            errors.forbidden(&path, ONLY_BALANCERS);
        }
    }
    let path = path.child("healthCheckNodePort");
    match health_port(spec) {
        Some(number) if !needs_health_check(spec) => {
            let detail =
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.invalid(&path, &number, detail);
        }
        Some(number) => errors.invalid_each(&path, &number, names::port_number(number.into())),
        None => {}
    }
}

/// Validates the addresses in the status of a load balancer.
pub(super) fn status_errors(errors: &mut FieldErrors, status: Option<&LoadBalancerStatus>) {
    let list = Path::root("status.loadBalancer.ingress");
    for (path, point) in list.each(status.into_iter().flat_map(|status| status.ingress.iter().flatten())) {
        let ip = point.ip.as_deref().unwrap_or_default();
        if !ip.is_empty() {
            errors.invalid_each(&path.child("ip"), ip, names::ip(ip));
        }
        if let Some(mode) = &point.ip_mode {
            let path = path.child("ipMode");
            if ip.is_empty() {
                errors.forbidden(&path, "may not be specified when `ip` is not set");
            } else {
                errors.one_of(&path, mode, &["Proxy", "VIP"]);
            }
        }
        let host = point.hostname.as_deref().unwrap_or_default();
        if !host.is_empty() {
            let path = path.child("hostname");
            errors.invalid_each(&path, host, names::dns_1123_subdomain(host));
            if names::ip(host).is_empty() {
                errors.invalid(&path, host, "must be a DNS name, not an IP address");
            }
        }
    }
}

/// Refuses changes of fields that are fixed while the type stays LoadBalancer.
pub(super) fn change_errors(errors: &mut FieldErrors, new: &ServiceSpec, old: &ServiceSpec) {
    let path = Path::root("spec");
    let both = |is: fn(&ServiceSpec) -> bool| is(new) && is(old);
    if both(|spec| type_of(spec) == "LoadBalancer") && new.load_balancer_class != old.load_balancer_class {
        errors.invalid(&path.child("loadBalancerClass"), &new.load_balancer_class, "may not change once set");
    }
    if both(needs_health_check) && health_port(old).is_some() && health_port(new) != health_port(old) {
        errors.forbidden(&path.child("healthCheckNodePort"), "field is immutable");
    }
}
