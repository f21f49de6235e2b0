//! The Node object and its Lease: the node's report of itself, written at start and renewed.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{
    ContainerImage, Node as NodeObject, NodeAddress, NodeCondition, NodeFeatures, NodeRuntimeHandlerFeatures,
    NodeSpec, NodeStatus, NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::counts::WorkItem;
use super::machine_ids::MachineIds;
use super::{Node, NodeConfig};
use crate::context::Context;
use crate::pressure::Condition;
use crate::runtime::Runtime;
use crate::runtime_class;
use api::{ApiError, DeleteOptions};
use base::clock::time;
use base::optional_file::read_optional;
use object::conditions::{self, ConditionStatus};
use object::low_ports::LowPorts;
use object::node::is_ready;
use object::quantity::ResourceList;
use object::well_known::annotation::{PODIUM_NETWORK_NOTE, PODIUM_POD_USERS, PODIUM_USERS_NOTE};
use object::well_known::condition::READY;
use object::well_known::label::{HOSTNAME, REGION, ZONE};
use object::{Key, Kind, SharedObject};

const LEASE_NAMESPACE: &str = "kube-node-lease";
/// The features that pods may require of their node, by the names of their feature gates, sorted.
const DECLARED_FEATURES: [&str; 2] = ["GuaranteedQoSPodCPUResize", "RestartAllContainersOnContainerExits"];
/// The version of Kubernetes that this kubelet behaves like.
const KUBELET_VERSION: &str = concat!("v1.37.0-podium.", env!("CARGO_PKG_VERSION"));

/// Registers the node, then renews its lease and its status until the task is stopped.
pub(crate) async fn heartbeat(context: &Context, node: &Node) {
    let mut reported: Option<Duration> = None;
    loop {
        let now = context.clock.monotonic();
        if reported.is_some() && context.api.get(Kind::Node, &Key::new("", &node.config.name)).is_err() {
            // The node's object was deleted, for good (NODE-5). Only a restart registers it again.
            context.clock.sleep(context.timings.node_lease_renew_interval.0).await;
            continue;
        }
        let due = reported
            .is_none_or(|at| now.saturating_sub(at) >= context.timings.node_status_report_frequency.0);
        // The status is also written if another client changed it (a lifecycle controller that did not see heartbeats),
        // or if images changed, which the scheduler uses.
        if due || !is_reported(context, node) {
            match report(context, node) {
                Ok(()) => reported = Some(now),
                Err(error) => {
                    tracing::warn!(node = node.config.name, "cannot write the node's status: {error}");
                    node.note_failure(
                        WorkItem::Node,
                        now,
                        format!("cannot write the node's status: {error}"),
                    );
                }
            }
        }
        if let Err(error) = renew(context, node) {
            tracing::warn!(node = node.config.name, "cannot renew the lease: {error}");
            node.note_failure(WorkItem::Node, now, format!("cannot renew the lease: {error}"));
        }
        context.clock.sleep(context.timings.node_lease_renew_interval.0).await;
    }
}

/// Returns true if the Node object reports the Ready condition, images, disks and allocatable resources as they are.
fn is_reported(context: &Context, node: &Node) -> bool {
    let Ok(object) = context.api.get_as::<NodeObject>(&Key::new("", &node.config.name)) else { return false };
    let Some(status) = &object.status else { return false };
    is_ready(&object) == node.health.failure().is_none()
        && status.images == images(node)
        && status.volumes_in_use == node.disks.lock().names()
        && status.allocatable.as_ref() == Some(&allocatable(node, status))
}

/// Writes the desired Node object; creates it if it does not exist.
pub(crate) fn report(context: &Context, node: &Node) -> Result<(), ApiError> {
    let key = Key::new("", &node.config.name);
    let now = node.clock.now();
    match context.api.get_as::<NodeObject>(&key) {
        Err(error) if error.is_not_found() => {
            context.api.create_as(first_object(node, now))?;
        }
        Err(error) => return Err(error),
        // The cluster's addresses differ from those at the last start; an existing node's pod range cannot be changed,
        // so the object is replaced.
        Ok(object)
            if object
                .spec
                .as_ref()
                .and_then(|s| s.pod_cidr.as_ref())
                .is_some_and(|c| *c != node.config.pod_range.to_string()) =>
        {
            replace(context, node, &object)?;
        }
        Ok(_) => {
            context.api.modify::<NodeObject>(&key, |object| {
                let desired = metadata(&node.config, node.runtime.as_ref());
                let labels = object.metadata.labels.get_or_insert_default();
                for (key, value) in desired.labels.unwrap_or_default() {
                    // The label is set once and may be changed by users.
                    if key.starts_with("topology.kubernetes.io/") {
                        labels.entry(key).or_insert(value);
                    } else {
                        labels.insert(key, value);
                    }
                }
                let annotations = object.metadata.annotations.get_or_insert_default();
                annotations.remove(PODIUM_NETWORK_NOTE);
                annotations.remove(PODIUM_USERS_NOTE);
                annotations.extend(desired.annotations.unwrap_or_default());
                let spec = object.spec.get_or_insert_default();
                spec.pod_cidr = Some(node.config.pod_range.to_string());
                spec.pod_cidrs = Some(node.config.pod_ranges());
                spec.provider_id.get_or_insert_with(|| format!("podium://{}", node.config.name));
                Ok(())
            })?;
            context.api.modify_status::<NodeObject>(&key, |object| {
                let old = object.status.take().unwrap_or_default();
                object.status = Some(status(node, &old, now));
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// Recreates the node's object, with all fields that users have set.
fn replace(context: &Context, node: &Node, old: &NodeObject) -> Result<(), ApiError> {
    let mut new = first_object(node, node.clock.now());
    let (given, own) = (&old.metadata, &mut new.metadata);
    let keep = |own: &mut Option<BTreeMap<String, String>>, given: &Option<BTreeMap<String, String>>| {
        own.get_or_insert_default().extend(given.clone().unwrap_or_default());
    };
    keep(&mut own.labels, &given.labels);
    keep(&mut own.annotations, &given.annotations);
    if let (Some(spec), Some(given)) = (&mut new.spec, &old.spec) {
        (spec.taints, spec.unschedulable) = (given.taints.clone(), given.unschedulable);
    }
    let options = DeleteOptions::uid(old.metadata.uid.clone().unwrap_or_default());
    context.api.delete(Kind::Node, &Key::new("", &node.config.name), &options)?;
    context.api.create_as(new).map(drop)
}

fn first_object(node: &Node, now: Timestamp) -> NodeObject {
    let cidr = node.config.pod_range.to_string();
    NodeObject {
        metadata: metadata(&node.config, node.runtime.as_ref()),
        spec: Some(NodeSpec {
            pod_cidr: Some(cidr),
            pod_cidrs: Some(node.config.pod_ranges()),
            provider_id: Some(format!("podium://{}", node.config.name)),
            taints: (!node.config.taints.is_empty()).then(|| node.config.taints.clone()),
            ..NodeSpec::default()
        }),
        status: Some(status(node, &NodeStatus::default(), now)),
    }
}

fn metadata(config: &NodeConfig, runtime: &dyn Runtime) -> ObjectMeta {
    let mut labels = config.labels.clone();
    let mut label = |key: &str, value: &str| {
        labels.insert(key.to_string(), value.to_string());
    };
    label(HOSTNAME, &config.name);
    for (key, value) in [("os", operating_system()), ("arch", architecture())] {
        label(&format!("kubernetes.io/{key}"), value);
        label(&format!("beta.kubernetes.io/{key}"), value);
    }
    if let Some(zone) = &config.zone {
        label(ZONE, zone);
    }
    if let Some(region) = &config.region {
        label(REGION, region);
    }
    let mut annotations: BTreeMap<String, String> = runtime.isolation();
    if !config.hollow {
        annotations.insert(LowPorts::ANNOTATION.into(), config.low_ports.text());
    }
    for (name, note) in [(PODIUM_NETWORK_NOTE, &config.network_note), (PODIUM_USERS_NOTE, &config.users_note)]
    {
        if let Some(note) = note {
            annotations.insert(name.into(), note.clone());
        }
    }
    ObjectMeta {
        name: Some(config.name.clone()),
        labels: Some(labels),
        annotations: (!annotations.is_empty()).then_some(annotations),
        ..ObjectMeta::default()
    }
}

fn operating_system() -> &'static str {
    match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    }
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn status(node: &Node, old: &NodeStatus, now: Timestamp) -> NodeStatus {
    let config = &node.config;
    let address = |type_: &str, address: String| NodeAddress { type_: type_.into(), address };
    let own = config.ips().all().map(|ip| address("InternalIP", ip.to_string()));
    let addresses = own.chain([address("Hostname", config.name.clone())]);
    let pod_users = node.runtime.isolation().get(PODIUM_POD_USERS).is_some_and(|fact| fact == "yes");
    let features = NodeRuntimeHandlerFeatures {
        recursive_read_only_mounts: Some(config.hollow || node.runtime.has_namespaces()),
        user_namespaces: Some(pod_users),
    };
    NodeStatus {
        addresses: Some(addresses.collect()),
        allocatable: Some(allocatable(node, old)),
        capacity: Some(with_others(old.capacity.as_ref(), &config.capacity)),
        features: Some(NodeFeatures {
            // Only root chooses the groups of processes.
            supplemental_groups_policy: Some(!config.hollow && rustix::process::geteuid().is_root()),
        }),
        declared_features: Some(DECLARED_FEATURES.map(Into::into).into()),
        conditions: Some(conditions(old, &node.eviction.conditions(), node.health.failure(), now)),
        images: images(node),
        node_info: Some(system_info(node.runtime.as_ref(), &config.name)),
        runtime_handlers: Some(runtime_class::handlers(&features)),
        volumes_in_use: node.disks.lock().names(),
        ..old.clone()
    }
}

/// The kubelet's own resources, plus those that other clients have advertised on the node (extended resources).
fn with_others(old: Option<&ResourceList>, own: &ResourceList) -> ResourceList {
    let mut all = old.cloned().unwrap_or_default();
    all.retain(|name, _| name.contains('/'));
    all.extend(own.clone());
    all
}

/// The resources available to pods: the whole capacity, including extended resources that other clients have
/// advertised.
fn allocatable(node: &Node, old: &NodeStatus) -> ResourceList {
    with_others(old.capacity.as_ref(), &node.config.capacity)
}

/// The desired `status.images`; `None` without images.
fn images(node: &Node) -> Option<Vec<ContainerImage>> {
    let images = node.images.lock().status(node.runtime.loaded_images());
    (!images.is_empty()).then_some(images)
}

fn conditions(
    old: &NodeStatus,
    pressure: &[Condition],
    failure: Option<String>,
    now: Timestamp,
) -> Vec<NodeCondition> {
    let mut all = old.conditions.clone().unwrap_or_default();
    let short = Condition::ALL.map(|condition| {
        let holds = pressure.contains(&condition);
        let (reason, message) = condition.reason_and_message(holds);
        (condition.text(), ConditionStatus::from(holds), reason, message.to_string())
    });
    let ready = match failure {
        None => (READY, ConditionStatus::True, "KubeletReady", "kubelet is posting ready status".to_string()),
        Some(failure) => (READY, ConditionStatus::False, "KubeletNotReady", failure),
    };
    for (type_, status, reason, message) in short.into_iter().chain([ready]) {
        let next = NodeCondition {
            last_heartbeat_time: Some(time(now)),
            ..conditions::new(type_, status, reason, message, time(now))
        };
        conditions::set(&mut all, next);
    }
    all
}

fn system_info(runtime: &dyn Runtime, name: &str) -> NodeSystemInfo {
    let uname = rustix::system::uname();
    let ids = MachineIds::of_node(name);
    NodeSystemInfo {
        architecture: architecture().into(),
        boot_id: ids.boot,
        container_runtime_version: runtime.version(),
        kernel_version: uname.release().to_string_lossy().into_owned(),
        kube_proxy_version: String::new(),
        kubelet_version: KUBELET_VERSION.into(),
        machine_id: ids.machine,
        operating_system: operating_system().into(),
        os_image: os_image(),
        system_uuid: ids.system,
        ..NodeSystemInfo::default()
    }
}

/// Returns a Lease's duration in whole seconds, at least 1: the kubelet renews a Lease four times within its duration.
fn lease_seconds(renew_interval: Duration) -> i32 {
    let seconds = renew_interval.saturating_mul(4).as_secs_f64().ceil();
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
    let seconds = seconds as i32;
    seconds.max(1)
}

fn os_image() -> String {
    static IMAGE: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    IMAGE
        .get_or_init(|| {
            let release = read_optional("/etc/os-release");
            let line = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
            line.map_or_else(|| std::env::consts::OS.to_string(), |name| name.trim_matches('"').to_string())
        })
        .clone()
}

/// Renews the node's Lease; creates it the first time, owned by the Node object.
fn renew(context: &Context, node: &Node) -> Result<(), ApiError> {
    let key = Key::new(LEASE_NAMESPACE, &node.config.name);
    let renewed = context.api.modify::<Lease>(&key, |lease| {
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(node.config.name.clone());
        spec.renew_time = Some(node.clock.micro_time());
        Ok(())
    });
    match renewed {
        Err(error) if error.is_not_found() => {}
        other => return other.map(|_: SharedObject<Lease>| ()),
    }
    let object = context.api.get_as::<NodeObject>(&Key::new("", &node.config.name))?;
    let owner = OwnerReference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: object.name().into(),
        uid: object.uid().into(),
        ..OwnerReference::default()
    };
    let lease = Lease {
        metadata: ObjectMeta {
            owner_references: Some(vec![owner]),
            ..Key::new(LEASE_NAMESPACE, node.config.name.as_str()).metadata()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(node.config.name.clone()),
            lease_duration_seconds: Some(lease_seconds(context.timings.node_lease_renew_interval.0)),
            renew_time: Some(node.clock.micro_time()),
            ..LeaseSpec::default()
        }),
    };
    context.api.create_as(lease).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_lasts_four_renewals_node_2() {
        for (interval, seconds) in [
            (Duration::from_secs(10), 40),
            (Duration::from_millis(200), 1),
            (Duration::ZERO, 1),
            (Duration::MAX, i32::MAX),
        ] {
            assert_eq!(lease_seconds(interval), seconds, "{interval:?}");
        }
    }
}
