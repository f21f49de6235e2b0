//! The random clusters: events, with their nodes and pods.

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::test_objects::{named_pod, node, with};
use object::SharedObject;
use object::well_known::label::HOSTNAME;

pub(super) use object::well_known::label::ZONE;
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

#[derive(Clone, Debug)]
pub(super) enum Event {
    Node {
        name: u8,
        size: u8,
        zone: u8,
        traits: Traits,
    },
    NodeDeleted(u8),
    /// A pod is first seen on its node, with its status.
    Placed {
        name: u8,
        node: u8,
        shape: u8,
    },
    /// A pod is created, and then bound; its status may follow with an [`Event::StatusWritten`].
    Bound {
        name: u8,
        node: u8,
        shape: u8,
    },
    Assumed {
        name: u8,
        node: u8,
        shape: u8,
    },
    /// The status of a placed pod is written.
    StatusWritten {
        name: u8,
        status: Status,
    },
    /// The labels of a placed pod change.
    Labelled {
        name: u8,
        app: u8,
    },
    /// The deletion of a placed pod is requested.
    Deleting(u8),
    PodDeleted(u8),
    Budget(u8),
}

/// The content of a pod's status.
#[derive(Clone, Copy, Debug)]
pub(super) struct Status {
    minute: u8,
    /// The cpu allocated to its containers, in halves.
    allocated: Option<u8>,
    /// Its node can never provide the resources in its spec.
    infeasible: bool,
    preempted: bool,
}

/// The properties of a node besides its size and zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traits {
    tainted: bool,
    avoided: bool,
    cordoned: bool,
    ssd: bool,
    image: bool,
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    let nodes = 0..6u8;
    let rare = || prop::bool::weighted(0.2);
    let traits = (rare(), rare(), rare(), any::<bool>(), rare()).prop_map(
        |(tainted, avoided, cordoned, ssd, image)| Traits { tainted, avoided, cordoned, ssd, image },
    );
    let node_event = (nodes.clone(), 1..4u8, 0..3u8, traits)
        .prop_map(|(name, size, zone, traits)| Event::Node { name, size, zone, traits });
    let status = (0..60u8, prop::option::of(0..6u8), rare(), rare()).prop_map(
        |(minute, given, infeasible, preempted)| Status { minute, allocated: given, infeasible, preempted },
    );
    prop_oneof![
        4 => node_event,
        1 => nodes.clone().prop_map(Event::NodeDeleted),
        3 => (0..12u8, nodes.clone(), 0..SHAPES).prop_map(|(name, node, shape)| Event::Placed { name, node, shape }),
        4 => (0..12u8, nodes.clone(), 0..SHAPES).prop_map(|(name, node, shape)| Event::Bound { name, node, shape }),
        5 => (0..12u8, status).prop_map(|(name, status)| Event::StatusWritten { name, status }),
        1 => (0..12u8, 0..2u8).prop_map(|(name, app)| Event::Labelled { name, app }),
        1 => (0..12u8).prop_map(Event::Deleting),
        3 => (0..12u8, nodes, 0..SHAPES).prop_map(|(name, node, shape)| Event::Assumed { name, node, shape }),
        3 => (0..12u8).prop_map(Event::PodDeleted),
        1 => (0..3u8).prop_map(Event::Budget),
    ]
}

/// Returns the node of an event about an existing node.
pub(super) fn node_of(event: &Event) -> Option<SharedObject<Node>> {
    let Event::Node { name, size, zone, traits } = event else { return None };
    let mut labels = json!({HOSTNAME: format!("n{name}")});
    // Nodes of the third zone have no zone label.
    if *zone < 2 {
        labels[ZONE] = json!(format!("z{zone}"));
    }
    if traits.ssd {
        labels["disk"] = json!("ssd");
    }
    let mut taints = Vec::new();
    if traits.tainted {
        taints.push(json!({"key": "k", "effect": "NoSchedule"}));
    }
    if traits.avoided {
        taints.push(json!({"key": "slow", "effect": "PreferNoSchedule"}));
    }
    let images =
        if traits.image { json!([{"names": ["big:1"], "sizeBytes": 800 * 1024 * 1024}]) } else { json!([]) };
    Some(node(json!({
        "metadata": {"name": format!("n{name}"), "labels": labels},
        "spec": {"taints": taints, "unschedulable": traits.cordoned},
        "status": {"images": images, "allocatable": {"cpu": format!("{size}"), "memory": format!("{size}Gi"),
            "pods": "4", "example.com/gpu": "2"}}})))
}

/// Returns a budget for the pods of app `a` in namespace `default`.
pub(super) fn budget(allowed: u8) -> SharedObject<PodDisruptionBudget> {
    let value = json!({"metadata": {"name": "a", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}}, "status": {"disruptionsAllowed": allowed,
            "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}});
    SharedObject::from_value(serde_json::from_value(value).expect("a budget"))
}

pub(super) const SHAPES: u8 = 22;

fn shape_of(shape: u8) -> Value {
    let container = |requests: Value| json!([{"name": "c", "resources": {"requests": requests}}]);
    let port = |more: Value| {
        let port = with(json!({"containerPort": 80, "hostPort": 80}), more);
        json!({"containers": [{"name": "c", "ports": [port]}]})
    };
    let spreading = |constraints: Value| json!({"containers": [], "topologySpreadConstraints": constraints});
    let to =
        |kind: &str, how: &str, terms: Value| json!({"containers": [], "affinity": {kind: {how: terms}}});
    match shape {
        0 => json!({"containers": container(json!({"cpu": "500m", "memory": "100Mi"}))}),
        1 => json!({"containers": container(json!({"cpu": "1", "memory": "1Gi"}))}),
        2 => {
            json!({"containers": container(json!({"example.com/gpu": "1"})), "tolerations": [{"operator": "Exists"}]})
        }
        3 => port(json!({})),
        4 => json!({"containers": container(json!({"cpu": "100m"})), "overhead": {"memory": "300Mi"},
            "nodeSelector": {ZONE: "z1"}}),
        5 => port(json!({"hostIP": "127.0.0.1"})),
        6 => port(json!({"hostIP": "127.0.0.2", "protocol": "UDP"})),
        7 => spreading(json!([spread(ZONE, "DoNotSchedule", json!({}))])),
        8 => spreading(json!([
            spread(HOSTNAME, "DoNotSchedule", json!({"maxSkew": 2})),
            spread(ZONE, "ScheduleAnyway", json!({})),
            spread(HOSTNAME, "ScheduleAnyway", json!({"maxSkew": 3}))
        ])),
        9 => spreading(json!([spread(ZONE, "DoNotSchedule", json!({"minDomains": 2}))])),
        10 => spreading(json!([
            spread(ZONE, "DoNotSchedule", json!({"nodeTaintsPolicy": "Honor"})),
            spread(ZONE, "ScheduleAnyway", json!({"nodeTaintsPolicy": "Honor"}))
        ])),
        11 | 12 => {
            let policy = if shape == 11 { "Ignore" } else { "Honor" };
            let mut spec =
                spreading(json!([spread(ZONE, "DoNotSchedule", json!({"nodeAffinityPolicy": policy}))]));
            spec["nodeSelector"] = json!({"disk": "ssd"});
            spec
        }
        13 => spreading(json!([spread(HOSTNAME, "DoNotSchedule", json!({"matchLabelKeys": ["hash"]}))])),
        14 => to("podAntiAffinity", REQUIRED, json!([term(HOSTNAME, "a", json!({}))])),
        15 => to("podAffinity", REQUIRED, json!([term(ZONE, "a", json!({}))])),
        16 => to(
            "podAntiAffinity",
            PREFERRED,
            json!([{"weight": 5, "podAffinityTerm": term(ZONE, "b", json!({}))}]),
        ),
        17 => to("podAntiAffinity", REQUIRED, json!([term(ZONE, "b", json!({"namespaceSelector": {}}))])),
        18 => to(
            "podAffinity",
            PREFERRED,
            json!([{"weight": 7, "podAffinityTerm": term(HOSTNAME, "a", json!({}))},
            {"weight": 3, "podAffinityTerm": term(ZONE, "b", json!({"namespaces": ["other"]}))}]),
        ),
        19 => {
            json!({"containers": [{"name": "c", "image": "big:1"}], "affinity": {"nodeAffinity": {PREFERRED: [
            {"weight": 10, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}},
            {"weight": 4, "preference": {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}}]}}})
        }
        20 => json!({"containers": container(json!({"cpu": "2"})),
            "tolerations": [{"key": "slow", "operator": "Exists"}]}),
        _ => json!({"containers": [{"name": "c"}]}),
    }
}

fn spread(key: &str, when: &str, more: Value) -> Value {
    let constraint = json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "a"}}});
    with(constraint, more)
}

fn term(key: &str, app: &str, more: Value) -> Value {
    with(json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}), more)
}

/// Returns a pod of a shape; labels, namespace, priority, age and deletion depend on the name.
pub(super) fn pod_of(name: u8, shape: u8) -> SharedObject<Pod> {
    let mut spec = shape_of(shape);
    spec["priority"] = json!([0, 5, 10][usize::from(name) % 3]);
    let mut pod = (*named_pod(&format!("p{name}"), spec)).clone();
    let (app, hash) = (["a", "b"][usize::from(name) % 2], ["1", "2"][usize::from(name) / 2 % 2]);
    let labels = [("app", app), ("hash", hash)].map(|(key, value)| (key.to_string(), value.to_string()));
    pod.metadata.labels = Some(labels.into());
    if name % 5 == 4 {
        pod.metadata.namespace = Some("other".into());
    }
    if name == 6 {
        pod.metadata.deletion_timestamp = Some(base::clock::time(jiff::Timestamp::UNIX_EPOCH));
    }
    let started = format!("2026-11-21T00:{:02}:00Z", name % 60);
    pod.status = serde_json::from_value(json!({"startTime": started})).expect("a status");
    SharedObject::from_value(pod)
}

/// Returns the pod before its first status.
pub(super) fn without_status(pod: &SharedObject<Pod>) -> SharedObject<Pod> {
    let mut pod = (**pod).clone();
    pod.status = None;
    SharedObject::from_value(pod)
}

pub(super) fn bound(pod: &SharedObject<Pod>, node: &str) -> SharedObject<Pod> {
    let mut pod = (**pod).clone();
    pod.spec.get_or_insert_default().node_name = Some(node.into());
    SharedObject::from_value(pod)
}

pub(super) fn with_status(pod: &SharedObject<Pod>, status: Status) -> SharedObject<Pod> {
    let mut pod = (**pod).clone();
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| {
        let given = status.allocated.map(|halves| json!({"cpu": format!("{}m", 500 * u32::from(halves))}));
        json!({"name": container.name, "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "allocatedResources": given})
    });
    let holds = |is: bool| if is { "True" } else { "False" };
    let status = json!({
        "phase": "Running", "startTime": format!("2026-11-21T00:{:02}:00Z", status.minute),
        "containerStatuses": containers.collect::<Vec<_>>(),
        "conditions": [
            {"type": "PodResizePending", "status": holds(status.infeasible), "reason": "Infeasible"},
            {"type": "DisruptionTarget", "status": holds(status.preempted), "reason": "PreemptionByScheduler"}]});
    pod.status = serde_json::from_value(status).expect("a status");
    SharedObject::from_value(pod)
}

/// Returns the pod with the label of another app.
pub(super) fn labelled(pod: &SharedObject<Pod>, app: u8) -> SharedObject<Pod> {
    let mut pod = (**pod).clone();
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert("app".into(), ["a", "b"][usize::from(app) % 2].into());
    SharedObject::from_value(pod)
}

/// Returns the pod with its deletion requested.
pub(super) fn deleting(pod: &SharedObject<Pod>) -> SharedObject<Pod> {
    let mut pod = (**pod).clone();
    pod.metadata.deletion_timestamp = Some(base::clock::time(jiff::Timestamp::UNIX_EPOCH));
    SharedObject::from_value(pod)
}
