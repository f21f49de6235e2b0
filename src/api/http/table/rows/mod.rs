//! The cells of each kind's row. The order is that of the columns in `columns`.

mod network;
mod policy;
mod storage;
mod workload;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use serde_json::{Value, json};

use super::RowCondition;
use crate::object::pod::printed_status;
use crate::object::time::{UNKNOWN, human_age, human_age_of};
use crate::object::{Body, Object};

const NONE: &str = "<none>";

pub(super) fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let name = json!(object.name());
    let age = json!(human_age_of(object.meta().creation_timestamp.as_ref(), now));
    match object.body() {
        Body::Pod(pod) => pod_cells(name, age, pod, now),
        Body::Deployment(deployment) => workload::deployment(name, age, deployment),
        Body::ReplicaSet(set) => workload::replica_set(name, age, set),
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
        Body::Service(service) => network::service(name, age, service),
        Body::Endpoints(endpoints) => vec![name, json!(network::endpoints_text(endpoints)), age],
        Body::EndpointSlice(slice) => network::endpoint_slice(name, age, slice),
        Body::Lease(lease) => {
            let holder = lease.spec.as_ref().and_then(|s| s.holder_identity.as_deref()).unwrap_or_default();
            vec![name, json!(holder), age]
        }
        Body::PodDisruptionBudget(budget) => policy::budget(name, age, budget),
        Body::PriorityClass(class) => vec![
            name,
            json!(class.value),
            json!(class.global_default.unwrap_or(false)),
            age,
            json!(class.preemption_policy.as_deref().unwrap_or_default()),
        ],
        Body::ReplicationController(controller) => workload::replication_controller(name, age, controller),
        Body::PodTemplate(template) => workload::pod_template(name, template),
        Body::ControllerRevision(revision) => workload::revision(name, age, revision),
        Body::StatefulSet(set) => workload::stateful_set(name, age, set),
        Body::DaemonSet(set) => workload::daemon_set(name, age, set),
        Body::Job(job) => workload::job(name, age, job, now),
        Body::CronJob(job) => workload::cron_job(name, age, job, now),
        Body::HorizontalPodAutoscaler(scaler) => policy::autoscaler(name, age, scaler),
        Body::ResourceQuota(quota) => policy::quota(name, age, quota),
        Body::LimitRange(_) | Body::PodPreset(_) => vec![name, json!(policy::created_at(object.meta()))],
        Body::StorageClass(class) => storage::class(age, class),
        Body::PersistentVolume(volume) => storage::volume(name, age, volume),
        Body::PersistentVolumeClaim(claim) => storage::claim(name, age, claim),
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

fn or_none(text: Option<&str>) -> Value {
    json!(text.filter(|t| !t.is_empty()).unwrap_or(NONE))
}

/// `a=1,b=2` in the order of the keys; `<none>` without any.
fn labels_text(labels: Option<&BTreeMap<String, String>>) -> Value {
    let all: Vec<String> =
        labels.into_iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
    or_none(Some(&all.join(",")))
}
