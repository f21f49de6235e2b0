//! Random histories: after each event, an index equals the model of all inputs, its changes lead there, and
//! explanations agree with the model.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::build::{key, namespace, pod, policy};
use super::evaluate::{Packet, evaluate};
use crate::{
    Changes, ConnectionEnd, ConnectionQuery, Direction, Index, Model, PolicyInputs, Protocol, compile,
    explain,
};
use object::Key;

/// An event; names and contents are few, so that events affect each other.
#[derive(Clone, Debug)]
enum ModelEvent {
    Pod { name: usize, shape: Option<PodShape> },
    Namespace { name: usize, labels: Option<usize> },
    Policy { name: usize, spec: Option<Value> },
}

#[derive(Clone, Debug)]
struct PodShape {
    labels: usize,
    phase: usize,
    ports: usize,
    node: usize,
    host: bool,
    addresses: usize,
    /// It has the address of another pod.
    shares_address: bool,
}

const NAMESPACES: [&str; 3] = ["a", "b", "c"];
const NAMESPACE_LABELS: [&str; 4] = ["", "team=x", "team=y", "team=x,env=prod"];
const LABELS: [&str; 6] = ["", "app=web", "app=db", "app=web,tier=1", "app=db,tier=2", "tier=1"];
const PODS: usize = 9;
const POLICIES: usize = 6;

fn pod_key(name: usize) -> Key {
    Key::new(NAMESPACES[name % 3], format!("p{name}"))
}

fn policy_key(name: usize) -> Key {
    Key::new(NAMESPACES[name % 3], format!("n{name}"))
}

fn node_address(node: usize) -> String {
    format!("172.20.0.{}", node + 1)
}

fn pod_of(name: usize, shape: &PodShape) -> k8s_openapi::api::core::v1::Pod {
    let own = if shape.shares_address { (name + 3) % PODS } else { name };
    let (v4, v6) = (format!("10.244.{}.{}", own % 2, own + 2), format!("fd00::{}", own + 2));
    let node = node_address(shape.node);
    let ips: &[&str] = match shape.addresses {
        _ if shape.host => &[&node],
        0 => &[],
        1 => &[&v6],
        2 => &[&v4],
        _ => &[&v4, &v6],
    };
    let ports = match shape.ports {
        0 => json!([]),
        1 => json!([{"name": "http", "containerPort": 80}]),
        2 => {
            json!([{"name": "http", "containerPort": 8080}, {"name": "dns", "containerPort": 53, "protocol": "UDP"}])
        }
        _ => json!([{"name": "http", "containerPort": 80, "protocol": "UDP"}]),
    };
    let (key, phase) = (pod_key(name), ["Running", "Pending", "Succeeded", "Failed"][shape.phase]);
    let more = json!({
        "spec": {"hostNetwork": shape.host, "nodeName": format!("m{}", shape.node),
            "containers": [{"name": "c", "ports": ports}]},
        "status": {"phase": phase}});
    pod(&key.to_string(), LABELS[shape.labels], ips, &more)
}

fn selector() -> impl Strategy<Value = Value> {
    prop_oneof![
        2 => Just(json!({})),
        4 => prop::sample::select(vec!["web", "db"]).prop_map(|app| json!({"matchLabels": {"app": app}})),
        1 => Just(json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]})),
        1 => Just(json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "web", "db"]}]})),
        1 => Just(json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]})),
        1 => Just(json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]})),
        1 => Just(json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]})),
        1 => Just(json!({"matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "Exists"}]})),
    ]
}

fn namespace_selector() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(json!({})),
        3 => prop::sample::select(vec!["x", "y"]).prop_map(|team| json!({"matchLabels": {"team": team}})),
        1 => Just(json!({"matchExpressions": [{"key": "env", "operator": "DoesNotExist"}]})),
        1 => Just(json!({"matchExpressions": [{"key": "env", "operator": "Exists"}]})),
    ]
}

fn peer() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => selector().prop_map(|pods| json!({"podSelector": pods})),
        2 => namespace_selector().prop_map(|namespaces| json!({"namespaceSelector": namespaces})),
        2 => (selector(), namespace_selector())
            .prop_map(|(pods, namespaces)| json!({"podSelector": pods, "namespaceSelector": namespaces})),
        1 => Just(json!({"ipBlock": {"cidr": "10.244.0.0/16", "except": ["10.244.1.0/24"]}})),
        1 => Just(json!({"ipBlock": {"cidr": "192.0.2.7/24"}})),
        1 => Just(json!({"ipBlock": {"cidr": "fd00::/64", "except": ["fd00::4/126"]}})),
        1 => Just(json!({"ipBlock": {"cidr": "172.20.0.0/16"}})),
    ]
}

fn port() -> impl Strategy<Value = Value> {
    let all = [
        json!({"port": 80}),
        json!({"port": 79, "endPort": 81}),
        json!({"port": 8080, "endPort": 9000}),
        json!({"port": 53, "protocol": "UDP"}),
        json!({"protocol": "UDP"}),
        json!({"protocol": "SCTP", "port": 80}),
        json!({"port": "http"}),
        json!({"port": "dns", "protocol": "UDP"}),
        json!({"port": "http", "protocol": "UDP"}),
        json!({"port": "missing"}),
    ];
    prop::sample::select(all.to_vec())
}

fn rules(peers: &'static str) -> impl Strategy<Value = Value> {
    let list = |own: BoxedStrategy<Value>| prop::option::of(prop::collection::vec(own, 0..3));
    let rule = (list(peer().boxed()), list(port().boxed()))
        .prop_map(move |(who, ports)| json!({peers: who, "ports": ports}));
    prop::option::of(prop::collection::vec(rule, 0..3)).prop_map(|rules| json!(rules))
}

fn spec() -> impl Strategy<Value = Value> {
    let types = prop::sample::select(vec![
        Value::Null,
        json!([]),
        json!(["Ingress"]),
        json!(["Egress"]),
        json!(["Ingress", "Egress"]),
    ]);
    (selector(), rules("from"), rules("to"), types).prop_map(|(pods, ingress, egress, types)| {
        json!({"podSelector": pods, "ingress": ingress, "egress": egress, "policyTypes": types})
    })
}

fn shape(borrowing: bool) -> impl Strategy<Value = PodShape> {
    (0..LABELS.len(), 0..8usize, 0..4usize, 0..2usize, 0..10u8, 0..6usize, 0..8u8).prop_map(
        move |(labels, phase, ports, node, host, addresses, borrowed)| PodShape {
            labels,
            // Most pods are running.
            phase: phase.saturating_sub(4),
            ports,
            node,
            host: host == 0,
            addresses,
            shares_address: borrowing && borrowed == 0,
        },
    )
}

fn step(borrowing: bool) -> impl Strategy<Value = ModelEvent> {
    prop_oneof![
        5 => (0..PODS, prop::option::weighted(0.85, shape(borrowing)))
            .prop_map(|(name, shape)| ModelEvent::Pod { name, shape }),
        1 => (0..NAMESPACES.len(), prop::option::weighted(0.8, 0..NAMESPACE_LABELS.len()))
            .prop_map(|(name, labels)| ModelEvent::Namespace { name, labels }),
        3 => (0..POLICIES, prop::option::weighted(0.8, spec()))
            .prop_map(|(name, spec)| ModelEvent::Policy { name, spec }),
    ]
}

fn apply_to_index(index: &mut Index, step: &ModelEvent) -> Changes {
    match step {
        ModelEvent::Pod { name, shape } => {
            let pod = shape.as_ref().map(|shape| pod_of(*name, shape));
            index.set_pod(&pod_key(*name), pod.as_ref())
        }
        ModelEvent::Namespace { name, labels } => {
            let own = labels.map(|labels| namespace(NAMESPACE_LABELS[labels]));
            index.set_namespace(NAMESPACES[*name], own.as_ref())
        }
        ModelEvent::Policy { name, spec } => {
            index.set_policy(&policy_key(*name), spec.as_ref().map(policy).as_ref())
        }
    }
}

fn stage(index: &mut Index, step: &ModelEvent) {
    match step {
        ModelEvent::Pod { name, shape } => {
            let pod = shape.as_ref().map(|shape| pod_of(*name, shape));
            index.stage_pod(&pod_key(*name), pod.as_ref());
        }
        ModelEvent::Namespace { name, labels } => {
            let own = labels.map(|labels| namespace(NAMESPACE_LABELS[labels]));
            index.stage_namespace(NAMESPACES[*name], own.as_ref());
        }
        ModelEvent::Policy { name, spec } => {
            index.stage_policy(&policy_key(*name), spec.as_ref().map(policy).as_ref());
        }
    }
}

fn apply_to_world(world: &mut PolicyInputs, step: &ModelEvent) {
    match step {
        ModelEvent::Pod { name, shape } => {
            let pod = shape.as_ref().map(|shape| pod_of(*name, shape));
            world.set_pod(&pod_key(*name), pod.as_ref());
        }
        ModelEvent::Namespace { name, labels } => {
            let own = labels.map(|labels| namespace(NAMESPACE_LABELS[labels]));
            world.set_namespace(NAMESPACES[*name], own.as_ref());
        }
        ModelEvent::Policy { name, spec } => {
            world.set_policy(&policy_key(*name), spec.as_ref().map(policy).as_ref());
        }
    }
}

/// Returns every pod and node, and an end outside the cluster, each with its node.
fn ends(world: &PolicyInputs) -> Vec<(ConnectionEnd, Option<String>)> {
    let pods = (0..PODS).map(pod_key).filter(|key| world.pods.contains_key(key));
    let pods = pods.map(|key| {
        let pod = &world.pods[&key];
        let node = pod.node.clone().filter(|_| pod.of_host);
        (ConnectionEnd::Pod(key), node)
    });
    let nodes = (0..2).map(|node| {
        let (name, address) = (format!("m{node}"), node_address(node).parse().unwrap());
        (ConnectionEnd::Node { name: name.clone(), address }, Some(name))
    });
    let outside = ["192.0.2.9", "10.244.0.200", "2001:db8::1", "fd00::5"];
    let outside = outside.map(|ip| (ConnectionEnd::Address(ip.parse().unwrap()), None));
    pods.chain(nodes).chain(outside).collect()
}

/// Returns the addresses of an end, the primary one first.
fn ips(world: &PolicyInputs, end: &ConnectionEnd) -> Vec<std::net::IpAddr> {
    match end {
        ConnectionEnd::Pod(key) => world.pods[key].ips.clone(),
        ConnectionEnd::Address(ip) | ConnectionEnd::Node { address: ip, .. } => vec![*ip],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn an_index_has_after_each_step_what_is_compiled_of_the_whole_net_8(
        steps in prop::collection::vec(step(true), 1..80),
        length in 1..6usize,
    ) {
        let (mut index, mut world) = (Index::default(), PolicyInputs::default());
        let (mut by_steps, mut by_batches) = (Model::default(), Model::default());
        let mut batches = Index::default();
        for batch in steps.chunks(length) {
            for step in batch {
                let changes = apply_to_index(&mut index, step);
                apply_to_world(&mut world, step);
                prop_assert_eq!(index.world(), &world);
                let whole = compile(&world);
                prop_assert_eq!(index.model(), &whole, "after {:?}", step);
                let is_same = by_steps == whole;
                changes.apply(&mut by_steps);
                prop_assert_eq!(&by_steps, &whole, "changes {:?} after {:?}", changes, step);
                prop_assert_eq!(changes.is_empty(), is_same, "changes {:?} after {:?}", changes, step);
                stage(&mut batches, step);
            }
            let committed = batches.commit();
            committed.apply_strictly(&mut by_batches);
            prop_assert_eq!(&by_batches, index.model(), "changes {:?} after {:?}", committed, batch);
            prop_assert_eq!(batches.model(), index.model());
        }
    }

    #[test]
    fn the_index_is_independent_of_the_order_of_events_net_8(
        steps in prop::collection::vec(step(true), 1..40),
        seed in any::<prop::sample::Index>(),
    ) {
        // The result depends only on the last event for each object: apply these alone, to a new index.
        let mut last = Vec::new();
        let name = |step: &ModelEvent| match step {
            ModelEvent::Pod { name, .. } => (0, *name),
            ModelEvent::Namespace { name, .. } => (1, *name),
            ModelEvent::Policy { name, .. } => (2, *name),
        };
        for (at, step) in steps.iter().enumerate() {
            if steps[at + 1..].iter().all(|later| name(later) != name(step)) {
                last.push(step);
            }
        }
        let at = seed.index(last.len());
        last.rotate_left(at);
        let (mut one, mut two) = (Index::default(), Index::default());
        for step in &steps {
            apply_to_index(&mut one, step);
        }
        for step in last {
            apply_to_index(&mut two, step);
        }
        prop_assert_eq!(one.model(), two.model());
        // Once all objects are removed, nothing is left behind.
        for name in 0..POLICIES {
            one.set_policy(&policy_key(name), None);
        }
        prop_assert_eq!(one.model(), &Model::default());
        for name in 0..PODS {
            one.set_pod(&pod_key(name), None);
        }
        prop_assert!(one.is_vacant());
    }

    #[test]
    fn explanations_say_what_the_model_does_net_8(steps in prop::collection::vec(step(false), 10..60)) {
        let mut world = PolicyInputs::default();
        for step in &steps {
            apply_to_world(&mut world, step);
        }
        let model = compile(&world);
        let ends = ends(&world);
        let probes = [
            (Protocol::Tcp, 80), (Protocol::Tcp, 8080), (Protocol::Tcp, 443), (Protocol::Udp, 53),
            (Protocol::Udp, 80), (Protocol::Sctp, 80),
        ];
        for (source, source_node) in &ends {
            for (destination, destination_node) in &ends {
                let (from, to) = (ips(&world, source), ips(&world, destination));
                let pair = to.iter().find_map(|to| Some((from.iter().find(|ip| ip.is_ipv4() == to.is_ipv4())?, to)));
                for (protocol, port) in probes {
                    let (source, destination) = (source.clone(), destination.clone());
                    let nodes = [source_node.as_deref(), destination_node.as_deref()];
                    let question = ConnectionQuery { source, destination, protocol, port };
                    let explained = explain(&world, &question);
                    let Some((from, to)) = pair else {
                        prop_assert!(explained.is_err(), "{question:?}");
                        continue;
                    };
                    let explained = explained.unwrap();
                    let packet = Packet { source: *from, destination: *to, nodes, protocol, port };
                    let allowed = [Direction::Egress, Direction::Ingress].map(|d| explained.ruling(d).allows());
                    prop_assert_eq!(allowed, evaluate(&model, &packet), "{:?} {:#?}", explained, model);
                    let sentences = explained.sentences(&world);
                    if !explained.is_allowed() {
                        prop_assert!(!sentences.is_empty() && sentences.iter().all(|s| s.contains("may not connect")));
                    }
                }
            }
        }
    }
}

#[test]
fn a_batch_that_makes_and_unmakes_says_nothing_of_it_net_8() {
    let mut index = Index::default();
    let web = pod("web", "app=web", &["10.244.0.2"], &json!({}));
    index.set_pod(&key("web"), Some(&web));
    let from_web =
        policy(&json!({"ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}]}]}));
    index.stage_policy(&key("p"), Some(&from_web));
    index.stage_policy(&key("p"), None);
    assert!(index.commit().is_empty());
}
