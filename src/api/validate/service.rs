//! Rules of services.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::field::{FieldErrors, Path};
use super::{metadata, names};

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const POLICIES: &[&str] = &["Cluster", "Local"];
const MAX_AFFINITY_SECONDS: i32 = 86400;

static EMPTY: std::sync::LazyLock<ServiceSpec> = std::sync::LazyLock::new(ServiceSpec::default);

fn spec_of(service: &Service) -> &ServiceSpec {
    service.spec.as_ref().unwrap_or(&EMPTY)
}

fn type_of(spec: &ServiceSpec) -> &str {
    spec.type_.as_deref().unwrap_or_default()
}

/// The cluster addresses, of which an older client names only the first.
fn cluster_ips(spec: &ServiceSpec) -> Vec<String> {
    match (&spec.cluster_ips, &spec.cluster_ip) {
        (Some(list), _) if !list.is_empty() => list.clone(),
        (_, Some(ip)) if !ip.is_empty() => vec![ip.clone()],
        _ => Vec::new(),
    }
}

pub(super) fn service(errors: &mut FieldErrors, service: &Service) {
    let spec = spec_of(service);
    let path = Path::root("spec");
    let kind = type_of(spec);
    let addresses = cluster_ips(spec);
    let headless = addresses.first().is_some_and(|ip| ip == "None");
    let ports = spec.ports.as_deref().unwrap_or_default();
    if ports.is_empty() && !headless && kind != "ExternalName" {
        errors.required(&path.child("ports"), "");
    }
    if headless && matches!(kind, "NodePort" | "LoadBalancer") {
        let detail = format!("may not be set to 'None' for {kind} services");
        errors.invalid(&path.child("clusterIPs").index(0), "None", detail);
    }
    if kind == "ExternalName" {
        external_name(errors, &path, spec, &addresses);
    } else {
        for (i, ip) in addresses.iter().enumerate().filter(|(i, ip)| *i > 0 || *ip != "None") {
            errors.invalid_each(&path.child("clusterIPs").index(i), ip, names::ip(ip));
        }
    }
    service_ports(errors, &path.child("ports"), ports);
    node_ports(errors, &path.child("ports"), ports, kind);
    metadata::labels(errors, &path.child("selector"), spec.selector.as_ref());
    session_affinity(errors, &path, spec);
    errors.required_one_of(&path.child("type"), spec.type_.as_deref(), TYPES);
    for (i, ip) in spec.external_ips.iter().flatten().enumerate() {
        errors.invalid_each(&path.child("externalIPs").index(i), ip, names::ip(ip));
    }
    policies(errors, &path, spec);
}

pub(super) fn update(errors: &mut FieldErrors, new: &Service, old: &Service) {
    let (new_spec, old_spec) = (spec_of(new), spec_of(old));
    let external = [new_spec, old_spec].iter().any(|spec| type_of(spec) == "ExternalName");
    let (after, before) = (cluster_ips(new_spec), cluster_ips(old_spec));
    if !external && !before.is_empty() && after.first() != before.first() {
        errors.invalid(&Path::root("spec.clusterIPs").index(0), &after, "may not change once set");
    }
    service(errors, new);
}

fn external_name(errors: &mut FieldErrors, path: &Path<'_>, spec: &ServiceSpec, addresses: &[String]) {
    if !addresses.is_empty() {
        errors.forbidden(&path.child("clusterIPs"), "may not be set for ExternalName services");
    }
    let name = spec.external_name.as_deref().unwrap_or_default();
    let bare = name.strip_suffix('.').unwrap_or(name);
    if bare.is_empty() {
        errors.required(&path.child("externalName"), "");
    } else {
        errors.invalid_each(&path.child("externalName"), name, names::dns_1123_subdomain(bare));
    }
}

fn service_ports(errors: &mut FieldErrors, path: &Path<'_>, ports: &[ServicePort]) {
    let mut seen = HashSet::new();
    let mut numbers = HashSet::new();
    for (i, port) in ports.iter().enumerate() {
        let path = path.index(i);
        let name = port.name.as_deref().unwrap_or_default();
        if name.is_empty() {
            if ports.len() > 1 {
                errors.required(&path.child("name"), "");
            }
        } else {
            errors.invalid_each(&path.child("name"), name, names::dns_1123_label(name));
            if !seen.insert(name) {
                errors.duplicate(&path.child("name"), name);
            }
        }
        errors.invalid_each(&path.child("port"), &port.port, names::port_number(port.port.into()));
        errors.required_one_of(&path.child("protocol"), port.protocol.as_deref(), PROTOCOLS);
        match &port.target_port {
            Some(IntOrString::Int(number)) => {
                let wrong = names::port_number((*number).into());
                errors.invalid_each(&path.child("targetPort"), number, wrong);
            }
            Some(IntOrString::String(name)) => {
                errors.invalid_each(&path.child("targetPort"), name, names::port_name(name));
            }
            None => {}
        }
        if let Some(protocol) = port.app_protocol.as_ref().filter(|p| !p.is_empty()) {
            errors.invalid_each(&path.child("appProtocol"), protocol, names::qualified_name(protocol));
        }
        if !numbers.insert((port.protocol.as_deref().unwrap_or_default(), port.port)) {
            errors.duplicate(&path, &serde_json::to_value(port).unwrap_or_default());
        }
    }
}

fn node_ports(errors: &mut FieldErrors, path: &Path<'_>, ports: &[ServicePort], kind: &str) {
    let mut seen = HashSet::new();
    for (i, port) in ports.iter().enumerate() {
        let Some(number) = port.node_port.filter(|p| *p != 0) else { continue };
        let path = path.index(i);
        let path = path.child("nodePort");
        if kind == "ClusterIP" {
            errors.forbidden(&path, "may not be used when `type` is 'ClusterIP'");
        } else if !seen.insert((port.protocol.as_deref().unwrap_or_default(), number)) {
            errors.duplicate(&path, &number);
        }
    }
}

fn session_affinity(errors: &mut FieldErrors, path: &Path<'_>, spec: &ServiceSpec) {
    errors.required_one_of(
        &path.child("sessionAffinity"),
        spec.session_affinity.as_deref(),
        &["ClientIP", "None"],
    );
    let seconds = spec
        .session_affinity_config
        .as_ref()
        .and_then(|c| c.client_ip.as_ref())
        .and_then(|c| c.timeout_seconds);
    if let Some(seconds) = seconds
        && !(1..=MAX_AFFINITY_SECONDS).contains(&seconds)
    {
        errors.invalid(
            &path.child("sessionAffinityConfig.clientIP.timeoutSeconds"),
            &seconds,
            format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}"),
        );
    }
}

fn policies(errors: &mut FieldErrors, path: &Path<'_>, spec: &ServiceSpec) {
    if let Some(policy) = spec.external_traffic_policy.as_ref().filter(|p| !p.is_empty()) {
        let path = path.child("externalTrafficPolicy");
        let reachable = matches!(type_of(spec), "NodePort" | "LoadBalancer")
            || spec.external_ips.as_ref().is_some_and(|ips| !ips.is_empty());
        if reachable {
            errors.one_of(&path, policy, POLICIES);
        } else {
            errors.invalid(&path, policy, "may only be set for externally-accessible services");
        }
    }
    if let Some(policy) = &spec.internal_traffic_policy {
        errors.one_of(&path.child("internalTrafficPolicy"), policy, POLICIES);
    }
    if let Some(policy) = &spec.ip_family_policy {
        errors.one_of(
            &path.child("ipFamilyPolicy"),
            policy,
            &["PreferDualStack", "RequireDualStack", "SingleStack"],
        );
    }
    for (i, family) in spec.ip_families.iter().flatten().enumerate() {
        errors.one_of(&path.child("ipFamilies").index(i), family, &["IPv4", "IPv6"]);
    }
}
