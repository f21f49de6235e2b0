//! Services.

use std::collections::HashSet;
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ClientIPConfig, LoadBalancerStatus, Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;

use super::columns::{Column, NONE, labels_text, or_none};
use super::ip_families::{self, cluster_ips};
use super::load_balancer;
use super::resource::{Resource, SelectableField, selectable, text};
use apimachinery::default::{set, set_text};
use apimachinery::validate::{FieldErrors, Path, metadata, names};
use base::sort::CollectMap;
use object::quantity::ResourceList;

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

const POLICIES: &[&str] = &["Cluster", "Local"];

const TRAFFIC_DISTRIBUTIONS: &[&str] = &["PreferClose", "PreferSameNode", "PreferSameZone"];

/// The annotation that keeps traffic in a zone, and its older name.
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";

const MAX_AFFINITY_SECONDS: i32 = 86400;
/// The default timeout of client IP session affinity, in seconds.
const CLIENT_IP_SECONDS: i32 = 10800;

impl Resource for Service {
    const ALLOWS_CREATE_ON_UPDATE: bool = true;
    // Since 1.37 (RelaxedServiceNameValidation) a name may start with a digit.
    const NAME_RULE: fn(&str) -> Vec<String> = names::dns_1123_label;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Type", "How the Service is exposed.", |service, _| {
            json!(spec_of(service).type_.as_deref().unwrap_or_default())
        }),
        Column::text(
            "Cluster-IP",
            "The IP address of the service, assigned by the control plane.",
            |service, _| or_none(spec_of(service).cluster_ip.as_deref()),
        ),
        Column::text(
            "External-IP",
            "Addresses of the service for clients outside the cluster.",
            |service, _| json!(external_addresses(service)),
        ),
        Column::text("Port(s)", "The list of ports that are exposed by this service.", |service, _| {
            json!(ports_text(spec_of(service).ports.as_deref().unwrap_or_default()))
        }),
        Column::age(),
        Column::selector(|service, _| labels_text(spec_of(service).selector.as_ref())),
    ];
    const SELECTABLE: &'static [SelectableField<Self>] = &[
        selectable("spec.clusterIP", |service| text(spec_of(service).cluster_ip.as_ref())),
        selectable("spec.type", |service| text(spec_of(service).type_.as_ref())),
    ];

    fn apply_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        set_text(&mut spec.session_affinity, "None");
        if spec.session_affinity.as_deref() == Some("ClientIP") {
            let config = spec.session_affinity_config.get_or_insert_default();
            let client = config.client_ip.get_or_insert_with(ClientIPConfig::default);
            set(&mut client.timeout_seconds, CLIENT_IP_SECONDS);
        } else {
            spec.session_affinity_config = None;
        }
        set_text(&mut spec.type_, "ClusterIP");
        for port in spec.ports.iter_mut().flatten() {
            set_text(&mut port.protocol, "TCP");
            let unset = match &port.target_port {
                None | Some(IntOrString::Int(0)) => true,
                Some(IntOrString::String(name)) => name.is_empty(),
                Some(IntOrString::Int(_)) => false,
            };
            if unset {
                port.target_port = Some(IntOrString::Int(port.port));
            }
        }
        let kind = spec.type_.as_deref().unwrap_or_default();
        let external = matches!(kind, "NodePort" | "LoadBalancer");
        let has_external_addresses = spec.external_ips.as_ref().is_some_and(|ips| !ips.is_empty());
        if external || (kind == "ClusterIP" && has_external_addresses) {
            set_text(&mut spec.external_traffic_policy, "Cluster");
        }
        if kind == "LoadBalancer" {
            set(&mut spec.allocate_load_balancer_node_ports, true);
        }
        if external || kind == "ClusterIP" {
            set_text(&mut spec.internal_traffic_policy, "Cluster");
        }
    }

    fn carry_over(&mut self, old: &Self) {
        if let (Some(new), Some(old)) = (self.spec.as_mut(), old.spec.as_ref()) {
            carry_over(new, old);
        }
    }

    fn complete_status(&mut self) {
        set(&mut self.status.get_or_insert_default().load_balancer, LoadBalancerStatus::default());
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let spec = spec_of(self);
        let path = Path::root("spec");
        let annotation = |key: &str| self.metadata.annotations.as_ref().and_then(|all| all.get(key));
        if let (Some(mode), Some(hints)) = (annotation(TOPOLOGY_MODE), annotation(TOPOLOGY_HINTS))
            && mode != hints
        {
            let detail = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
            errors.invalid(&Path::root("metadata.annotations").key(TOPOLOGY_MODE), mode, detail);
        }
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
        }
        ip_families::address_errors(spec, &addresses, errors);
        service_ports(errors, &path.child("ports"), ports);
        node_ports(errors, &path.child("ports"), ports, kind);
        metadata::labels(errors, &path.child("selector"), spec.selector.as_ref());
        session_affinity(errors, &path, spec);
        errors.required_one_of(&path.child("type"), spec.type_.as_deref(), TYPES);
        for (i, ip) in spec.external_ips.iter().flatten().enumerate() {
            let path = path.child("externalIPs");
            errors.invalid_each(&path.index(i), ip, names::ip(ip));
            errors.invalid_each(&path.index(i), ip, names::non_special_ip(ip));
            if ip.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()) {
                let detail = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
                errors.invalid(&path.index(i), ip, detail);
            }
        }
        policies(errors, &path, spec);
        load_balancer::errors(errors, &path, spec, annotation(load_balancer::SOURCE_RANGES));
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        let (new_spec, old_spec) = (spec_of(self), spec_of(old));
        ip_families::change_errors(new_spec, old_spec, errors);
        load_balancer::change_errors(errors, new_spec, old_spec);
        self.validate(errors);
    }

    fn validate_status(&self, _old: &Self, errors: &mut FieldErrors) {
        load_balancer::status_errors(errors, self.status.as_ref().and_then(|s| s.load_balancer.as_ref()));
    }

    fn usage(&self, _now: Timestamp) -> ResourceList {
        let spec = self.spec.as_ref();
        let ports = || spec.iter().flat_map(|s| s.ports.iter().flatten());
        let (node_ports, balancers) = match spec.and_then(|s| s.type_.as_deref()) {
            Some("NodePort") => (ports().count(), 0),
            Some("LoadBalancer") if spec.and_then(|s| s.allocate_load_balancer_node_ports) == Some(false) => {
                (ports().filter(|p| p.node_port.is_some_and(|n| n != 0)).count(), 1)
            }
            Some("LoadBalancer") => (ports().count(), 1),
            _ => (0, 0),
        };
        let entry = |name: &str, count: usize| (name.to_string(), Quantity(count.to_string()));
        [
            entry("services", 1),
            entry("services.nodeports", node_ports),
            entry("services.loadbalancers", balancers),
        ]
        .collect_map()
    }

    fn uses(resource: &str) -> bool {
        matches!(resource, "services" | "services.nodeports" | "services.loadbalancers")
    }
}

static EMPTY: std::sync::LazyLock<ServiceSpec> = std::sync::LazyLock::new(ServiceSpec::default);

fn spec_of(service: &Service) -> &ServiceSpec {
    service.spec.as_ref().unwrap_or(&EMPTY)
}

fn type_of(spec: &ServiceSpec) -> &str {
    spec.type_.as_deref().unwrap_or_default()
}

fn carry_over(new: &mut ServiceSpec, old: &ServiceSpec) {
    let type_of = |spec: &ServiceSpec| spec.type_.clone().unwrap_or_else(|| "ClusterIP".into());
    let (new_type, old_type) = (type_of(new), type_of(old));
    ip_families::carry_over(new, old);
    let has_node_ports = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    match (has_node_ports(&new_type), has_node_ports(&old_type)) {
        (true, true) => keep_node_ports(new, old),
        (false, true) => drop_carried_node_ports(new, old),
        _ => {}
    }
    load_balancer::carry_over(new, old);
}

/// Preserves the node ports of the old version, matched by port and protocol.
fn keep_node_ports(new: &mut ServiceSpec, old: &ServiceSpec) {
    let mut used: HashSet<i32> = new.ports.iter().flatten().filter_map(|p| p.node_port).collect();
    for port in new.ports.iter_mut().flatten().filter(|p| p.node_port.unwrap_or(0) == 0) {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let given = old
            .ports
            .iter()
            .flatten()
            .find(|old| old.port == port.port && old.protocol.as_deref().unwrap_or("TCP") == protocol);
        if let Some(number) = given.and_then(|old| old.node_port).filter(|n| used.insert(*n)) {
            port.node_port = Some(number);
        }
    }
}

/// Drops the node ports that an update left unchanged while it changed the type to one without node ports.
fn drop_carried_node_ports(new: &mut ServiceSpec, old: &ServiceSpec) {
    let before: HashSet<i32> = old.ports.iter().flatten().filter_map(|p| p.node_port).collect();
    for port in new.ports.iter_mut().flatten() {
        port.node_port = port.node_port.filter(|n| *n != 0 && !before.contains(n));
    }
    if new.external_traffic_policy == old.external_traffic_policy {
        new.external_traffic_policy = None;
    }
}

fn external_name(errors: &mut FieldErrors, path: &Path<'_>, spec: &ServiceSpec, addresses: &[String]) {
    ip_families::external_name_errors(spec, addresses, errors);
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
    for (path, port) in path.each(ports.iter()) {
        let name = port.name.as_deref().unwrap_or_default();
        if name.is_empty() {
            if ports.len() > 1 {
                errors.required(&path.child("name"), "");
            }
        } else {
            errors.invalid_each(&path.child("name"), name, names::dns_1123_label(name));
            errors.unique(&mut seen, &path.child("name"), name);
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
        if let Some(protocol) = &port.app_protocol {
            errors.invalid_each(&path.child("appProtocol"), protocol, names::qualified_name(protocol));
        }
        if !numbers.insert((port.protocol.as_deref().unwrap_or_default(), port.port)) {
            errors.duplicate(&path, &object::json_of(port));
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
    if let Some(distribution) = &spec.traffic_distribution {
        errors.one_of(&path.child("trafficDistribution"), distribution, TRAFFIC_DISTRIBUTIONS);
    }
}

fn external_addresses(service: &Service) -> String {
    let Some(spec) = service.spec.as_ref() else { return NONE.into() };
    let external = |spec: &ServiceSpec| spec.external_ips.clone().unwrap_or_default();
    match spec.type_.as_deref() {
        Some("ExternalName") => spec.external_name.clone().unwrap_or_default(),
        Some("LoadBalancer") => {
            let ingress = service.status.as_ref().and_then(|s| s.load_balancer.as_ref());
            let ingress = ingress.and_then(|b| b.ingress.as_deref()).unwrap_or_default();
            let mut addresses: Vec<String> =
                ingress.iter().filter_map(|i| i.ip.clone().or_else(|| i.hostname.clone())).collect();
            addresses.extend(external(spec));
            if addresses.is_empty() { "<pending>".into() } else { addresses.join(",") }
        }
        _ => {
            let addresses = external(spec);
            if addresses.is_empty() { NONE.into() } else { addresses.join(",") }
        }
    }
}

fn ports_text(ports: &[ServicePort]) -> String {
    if ports.is_empty() {
        return NONE.into();
    }
    let port = |p: &ServicePort| {
        let protocol = p.protocol.as_deref().unwrap_or("TCP");
        match p.node_port {
            Some(node_port) if node_port > 0 => format!("{}:{node_port}/{protocol}", p.port),
            _ => format!("{}/{protocol}", p.port),
        }
    };
    ports.iter().map(port).collect::<Vec<_>>().join(",")
}
