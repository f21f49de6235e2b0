//! The cells of each kind's row. The order is that of the columns in `columns`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{
    Endpoints, Event, Node, Pod, PodSpec, PodTemplateSpec, Service, ServicePort, ServiceSpec,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::RowCondition;
use crate::object::pod::printed_status;
use crate::object::time::{UNKNOWN, human_age, human_age_of};
use crate::object::{Body, Object};

const NONE: &str = "<none>";

/// How many endpoints are written out.
const SHOWN_ENDPOINTS: usize = 3;

pub(super) fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let name = json!(object.name());
    let age = json!(human_age_of(object.meta().creation_timestamp.as_ref(), now));
    match object.body() {
        Body::Pod(pod) => pod_cells(name, age, pod, now),
        Body::Deployment(deployment) => deployment_cells(name, age, deployment),
        Body::ReplicaSet(set) => replica_set_cells(name, age, set),
        Body::Node(node) => node_cells(name, age, node),
        Body::Namespace(namespace) => {
            let phase = namespace.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default();
            vec![name, json!(phase), age]
        }
        Body::Event(event) => event_cells(name, event, now),
        Body::ConfigMap(map) => {
            let count = map.data.as_ref().map_or(0, BTreeMap::len)
                + map.binary_data.as_ref().map_or(0, BTreeMap::len);
            vec![name, json!(count.to_string()), age]
        }
        Body::Secret(secret) => {
            let count = secret.data.as_ref().map_or(0, BTreeMap::len);
            vec![name, json!(secret.type_.as_deref().unwrap_or_default()), json!(count.to_string()), age]
        }
        Body::ServiceAccount(account) => {
            vec![name, json!(account.secrets.as_ref().map_or(0, Vec::len).to_string()), age]
        }
        Body::Service(service) => service_cells(name, age, service),
        Body::Endpoints(endpoints) => vec![name, json!(endpoints_text(endpoints)), age],
        Body::EndpointSlice(slice) => endpoint_slice_cells(name, age, slice),
        Body::Lease(lease) => {
            let holder = lease.spec.as_ref().and_then(|s| s.holder_identity.as_deref()).unwrap_or_default();
            vec![name, json!(holder), age]
        }
        Body::PodDisruptionBudget(budget) => budget_cells(name, age, budget),
        Body::PriorityClass(class) => vec![
            name,
            json!(class.value),
            json!(class.global_default.unwrap_or(false)),
            age,
            json!(class.preemption_policy.as_deref().unwrap_or_default()),
        ],
        #[allow(unreachable_patterns, reason = "kinds without columns of their own")]
        _ => vec![name, age],
    }
}

/// The condition by which printers tell a finished pod's row.
pub(super) fn condition(object: &Object) -> Option<[RowCondition; 1]> {
    let pod = object.get::<Pod>()?;
    let (reason, message) = match pod.status.as_ref()?.phase.as_deref()? {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some([RowCondition { type_: "Completed", status: "True", reason, message }])
}

fn pod_cells(name: Value, age: Value, pod: &Pod, now: Timestamp) -> Vec<Value> {
    let printed = printed_status(pod);
    let status = pod.status.as_ref();
    let spec = pod.spec.as_ref();
    let ip = status.and_then(|s| s.pod_ip.as_deref());
    let nominated = status.and_then(|s| s.nominated_node_name.as_deref());
    vec![
        name,
        json!(printed.ready_text()),
        json!(printed.status),
        json!(printed.restarts_text(now)),
        age,
        or_none(ip),
        or_none(spec.and_then(|s| s.node_name.as_deref())),
        or_none(nominated),
        json!(readiness_gates(pod)),
    ]
}

fn readiness_gates(pod: &Pod) -> String {
    let gates = pod.spec.as_ref().and_then(|s| s.readiness_gates.as_deref()).unwrap_or_default();
    if gates.is_empty() {
        return NONE.into();
    }
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let open = gates
        .iter()
        .filter(|gate| conditions.iter().any(|c| c.type_ == gate.condition_type && c.status == "True"))
        .count();
    format!("{open}/{}", gates.len())
}

fn deployment_cells(name: Value, age: Value, deployment: &Deployment) -> Vec<Value> {
    let spec = &deployment.spec;
    let status = deployment.status.as_ref();
    let desired = spec.replicas.unwrap_or(0);
    let ready = status.and_then(|s| s.ready_replicas).unwrap_or(0);
    let [containers, images] = containers_and_images(Some(&spec.template));
    vec![
        name,
        json!(format!("{ready}/{desired}")),
        json!(status.and_then(|s| s.updated_replicas).unwrap_or(0)),
        json!(status.and_then(|s| s.available_replicas).unwrap_or(0)),
        age,
        containers,
        images,
        json!(selector_text(&spec.selector)),
    ]
}

fn replica_set_cells(name: Value, age: Value, set: &ReplicaSet) -> Vec<Value> {
    let spec = &set.spec;
    let status = set.status.as_ref();
    let [containers, images] = containers_and_images(spec.template.as_ref());
    vec![
        name,
        json!(spec.replicas.unwrap_or(0)),
        json!(status.map_or(0, |s| s.replicas)),
        json!(status.and_then(|s| s.ready_replicas).unwrap_or(0)),
        age,
        containers,
        images,
        json!(selector_text(&spec.selector)),
    ]
}

fn containers_and_images(template: Option<&PodTemplateSpec>) -> [Value; 2] {
    let containers = template.and_then(|t| t.spec.as_ref()).map_or(&[][..], |s: &PodSpec| &s.containers);
    let names: Vec<&str> = containers.iter().map(|c| c.name.as_str()).collect();
    let images: Vec<&str> = containers.iter().map(|c| c.image.as_deref().unwrap_or_default()).collect();
    [json!(names.join(",")), json!(images.join(","))]
}

/// As `kubectl` writes a selector: `app=web,tier in (a,b)`.
fn selector_text(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.iter().flatten().map(|e| {
        let mut values = e.values.clone().unwrap_or_default();
        values.sort();
        let values = values.join(",");
        match e.operator.as_str() {
            "In" => format!("{} in ({values})", e.key),
            "NotIn" => format!("{} notin ({values})", e.key),
            "DoesNotExist" => format!("!{}", e.key),
            _ => e.key.clone(),
        }
    });
    let mut parts: Vec<String> = labels.chain(expressions).collect();
    parts.sort();
    if parts.is_empty() { NONE.into() } else { parts.join(",") }
}

fn node_cells(name: Value, age: Value, node: &Node) -> Vec<Value> {
    let status = node.status.as_ref();
    let conditions = status.and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let mut state = match conditions.iter().find(|c| c.type_ == "Ready") {
        Some(ready) if ready.status == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_string();
    if node.spec.as_ref().is_some_and(|s| s.unschedulable == Some(true)) {
        state.push_str(",SchedulingDisabled");
    }
    let info = status.and_then(|s| s.node_info.as_ref());
    let addresses = status.and_then(|s| s.addresses.as_deref()).unwrap_or_default();
    let address =
        |type_: &str| json!(addresses.iter().find(|a| a.type_ == type_).map_or(NONE, |a| a.address.as_str()));
    let reported = |text: Option<&str>| json!(text.filter(|t| !t.is_empty()).unwrap_or(UNKNOWN));
    vec![
        name,
        json!(state),
        json!(node_roles(node)),
        age,
        json!(info.map_or("", |i| i.kubelet_version.as_str())),
        address("InternalIP"),
        address("ExternalIP"),
        reported(info.map(|i| i.os_image.as_str())),
        reported(info.map(|i| i.kernel_version.as_str())),
        reported(info.map(|i| i.container_runtime_version.as_str())),
    ]
}

fn node_roles(node: &Node) -> String {
    let mut roles: Vec<&str> = Vec::new();
    for (key, value) in node.metadata.labels.iter().flatten() {
        match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => roles.push(role),
            _ if key == "kubernetes.io/role" && !value.is_empty() => roles.push(value),
            _ => {}
        }
    }
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { NONE.into() } else { roles.join(",") }
}

fn event_cells(name: Value, event: &Event, now: Timestamp) -> Vec<Value> {
    let observed = event.event_time.as_ref().map(|t| t.0);
    let first = event.first_timestamp.as_ref().map(|t| t.0).or(observed);
    let last = event.last_timestamp.as_ref().map(|t| t.0).or(first);
    let series = event.series.as_ref();
    let last = series.and_then(|s| s.last_observed_time.as_ref()).map(|t| t.0).or(last);
    let age = |then: Option<Timestamp>| then.map_or_else(|| UNKNOWN.into(), |then| human_age(then, now));
    let count = series.map_or(event.count, |s| s.count).filter(|n| *n != 0).unwrap_or(1);
    let involved = &event.involved_object;
    let kind = involved.kind.as_deref().unwrap_or_default().to_lowercase();
    let target = match involved.name.as_deref() {
        Some(name) if !name.is_empty() => format!("{kind}/{name}"),
        _ => kind,
    };
    vec![
        json!(age(last)),
        json!(event.type_.as_deref().unwrap_or_default()),
        json!(event.reason.as_deref().unwrap_or_default()),
        json!(target),
        json!(involved.field_path.as_deref().unwrap_or_default()),
        json!(event_source(event)),
        json!(event.message.as_deref().unwrap_or_default().trim()),
        json!(age(first)),
        json!(count),
        name,
    ]
}

fn event_source(event: &Event) -> String {
    let source = event.source.as_ref();
    let named = |text: Option<&String>| text.filter(|t| !t.is_empty()).cloned();
    let component = named(source.and_then(|s| s.component.as_ref()));
    let (component, host) = match component {
        Some(component) => (component, named(source.and_then(|s| s.host.as_ref()))),
        None => {
            (event.reporting_component.clone().unwrap_or_default(), named(event.reporting_instance.as_ref()))
        }
    };
    match host {
        Some(host) => format!("{component}, {host}"),
        None => component,
    }
}

fn service_cells(name: Value, age: Value, service: &Service) -> Vec<Value> {
    let spec = service.spec.as_ref();
    let selector = spec.and_then(|s| s.selector.as_ref());
    let selector: Vec<String> =
        selector.into_iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
    vec![
        name,
        json!(spec.and_then(|s| s.type_.as_deref()).unwrap_or_default()),
        or_none(spec.and_then(|s| s.cluster_ip.as_deref())),
        json!(external_addresses(service)),
        json!(ports_text(spec.and_then(|s| s.ports.as_deref()).unwrap_or_default())),
        age,
        or_none(Some(selector.join(",").as_str())),
    ]
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

/// `10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 2 more...`
fn endpoints_text(endpoints: &Endpoints) -> String {
    let mut all = Vec::new();
    for subset in endpoints.subsets.iter().flatten() {
        let addresses = subset.addresses.as_deref().unwrap_or_default();
        match subset.ports.as_deref() {
            Some(ports) if !ports.is_empty() => {
                for port in ports {
                    all.extend(addresses.iter().map(|a| format!("{}:{}", a.ip, port.port)));
                }
            }
            _ => all.extend(addresses.iter().map(|a| a.ip.clone())),
        }
    }
    shortened(&all, NONE)
}

fn shortened(all: &[String], none: &str) -> String {
    if all.is_empty() {
        return none.into();
    }
    let shown = all[..all.len().min(SHOWN_ENDPOINTS)].join(",");
    match all.len().saturating_sub(SHOWN_ENDPOINTS) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

fn endpoint_slice_cells(name: Value, age: Value, slice: &EndpointSlice) -> Vec<Value> {
    let ports: Vec<String> = slice
        .ports
        .iter()
        .flatten()
        .map(|p| p.port.map_or_else(|| "*".into(), |port| port.to_string()))
        .collect();
    let addresses: Vec<String> =
        slice.endpoints.iter().flatten().flat_map(|e| e.addresses.iter().cloned()).collect();
    vec![
        name,
        json!(slice.address_type),
        json!(shortened(&ports, "<unset>")),
        json!(shortened(&addresses, "<unset>")),
        age,
    ]
}

fn budget_cells(name: Value, age: Value, budget: &PodDisruptionBudget) -> Vec<Value> {
    let spec = budget.spec.as_ref();
    let amount = |value: Option<&IntOrString>| match value {
        Some(IntOrString::Int(n)) => json!(n.to_string()),
        Some(IntOrString::String(text)) => json!(text),
        None => json!("N/A"),
    };
    vec![
        name,
        amount(spec.and_then(|s| s.min_available.as_ref())),
        amount(spec.and_then(|s| s.max_unavailable.as_ref())),
        json!(budget.status.as_ref().and_then(|s| s.disruptions_allowed).unwrap_or(0)),
        age,
    ]
}

fn or_none(text: Option<&str>) -> Value {
    json!(text.filter(|t| !t.is_empty()).unwrap_or(NONE))
}
