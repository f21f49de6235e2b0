//! The model itself: what is shared, what is stored once, and the cost of a change.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};

use super::build::{key, namespace, pod, policy};
use crate::{Index, Member, Model, Peers, PolicyInputs, Ports, Protocol, SetChange, compile};

/// Formats a model: a line for each pod and direction, and a line for each set.
fn describe(model: &Model) -> String {
    let mut text = String::new();
    for (key, pod) in &model.pods {
        for (name, isolation) in [("ingress", &pod.ingress), ("egress", &pod.egress)] {
            let Some(isolation) = isolation else { continue };
            write!(text, "{key} {name}:").unwrap();
            for (peers, ports) in &isolation.peers {
                write!(text, " [{peers:?} {ports:?}]").unwrap();
            }
            for id in &isolation.endpoints {
                write!(text, " [{id}]").unwrap();
            }
            text.push('\n');
        }
    }
    for (id, members) in &model.sets {
        writeln!(text, "{id} = {members:?}").unwrap();
    }
    text.replace("SetId(", "(").replace("protocol: ", "").replace("PortRange ", "")
}

fn from(who: &Value, ports: &Value) -> Value {
    json!({"podSelector": {"matchLabels": {"app": "db"}}, "ingress": [{"from": [who], "ports": ports}]})
}

#[test]
fn the_same_selectors_share_a_set_and_the_same_peers_their_ports_net_8() {
    let labels = json!({"podSelector": {"matchLabels": {"app": "web", "tier": "1"}}});
    let expressions = json!({"podSelector": {"matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["1"]}, {"key": "app", "operator": "In", "values": ["web", "web"]}]}});
    let world = PolicyInputs::default()
        .with_namespace("default", "team=blue")
        .with_pod("web", "app=web,tier=1", &["10.244.0.2", "fd00::2"], &json!({}))
        .with_pod("db", "app=db", &["10.244.0.4"], &json!({}))
        .with_policy("a", &from(&labels, &json!([{"port": 80}])))
        .with_policy("b", &from(&expressions, &json!([{"port": 81, "endPort": 90}])))
        .with_policy("other/c", &from(&labels, &json!(null)))
        .with_policy("out", &json!({"podSelector": {"matchLabels": {"app": "db"}}, "policyTypes": ["Egress"],
            "egress": [{"to": [{"namespaceSelector": {"matchLabels": {"team": "blue"}}}], "ports": [{"port": "http"}]}]}));
    assert_eq!(
        describe(&compile(&world)),
        "default/db ingress: [Set((\"pods app=web,tier=1 in namespace default\")) Some([{{ Tcp, first: 80, last: 90 }}])]\n\
         default/db egress: [port http/TCP of pods in namespaces team=blue]\n\
         pods app=web,tier=1 in namespace default = {Address(10.244.0.2), Address(fd00::2)}\n\
         pods app=web,tier=1 in namespace other = {}\n\
         port http/TCP of pods in namespaces team=blue = {}\n"
    );
}

#[test]
fn names_of_sets_are_not_ambiguous_net_8() {
    let one =
        json!({"podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b,c"]}]}});
    let two =
        json!({"podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}]}});
    let three = json!({"podSelector": {"matchLabels": {"a": "b) in namespace x"}}});
    let mut world = PolicyInputs::default();
    for (name, who) in [("one", one), ("two", two), ("three", three)] {
        world = world.with_policy(name, &from(&who, &json!(null)));
    }
    let sets: Vec<String> = compile(&world).sets.keys().map(ToString::to_string).collect();
    assert_eq!(
        sets,
        [
            "pods a in (b,c) in namespace default",
            "pods a=\"b) in namespace x\" in namespace default",
            "pods a=\"b,c\" in namespace default",
        ]
    );
}

#[test]
fn a_pod_that_comes_is_one_element_of_the_sets_that_it_is_in_net_8() {
    let mut index = Index::default();
    index.set_namespace("default", Some(&namespace("")));
    let web = json!({"podSelector": {"matchLabels": {"app": "web"}}});
    for name in ["a", "b", "c"] {
        index.set_policy(&key(name), Some(&policy(&from(&web, &json!(null)))));
    }
    let changes = index.set_pod(&key("web"), Some(&pod("web", "app=web", &["10.244.0.2"], &json!({}))));
    let change = changes.sets.into_values().collect::<Vec<_>>();
    let added = BTreeSet::from([Member::Address("10.244.0.2".parse().unwrap())]);
    assert_eq!(change, [SetChange::Changed { added, removed: BTreeSet::new() }]);
    assert!(changes.pods.is_empty());
    // Irrelevant fields change nothing.
    let annotated = json!({"metadata": {"annotations": {"note": "x"}}, "status": {"message": "fine"}});
    let annotated = pod("web", "app=web", &["10.244.0.2"], &annotated);
    assert!(index.set_pod(&key("web"), Some(&annotated)).is_empty());
    assert!(index.set_namespace("default", Some(&namespace("a=b"))).is_empty());
    // The next pod with the same address appears before the previous one is removed.
    assert!(
        index.set_pod(&key("next"), Some(&pod("next", "app=web", &["10.244.0.2"], &json!({})))).is_empty()
    );
    assert!(index.set_pod(&key("web"), None).is_empty());
    assert_eq!(index.set_pod(&key("next"), None).sets.len(), 1);
}

#[test]
fn pods_that_the_same_policies_select_share_what_is_left_of_them_net_8() {
    let mut index = Index::default();
    for n in 0..200 {
        let (name, ports) = (format!("p{n}"), json!([{"name": "http", "containerPort": 80 + n % 2}]));
        let more = json!({"spec": {"containers": [{"name": "c", "ports": ports}]}});
        index.set_pod(&key(&name), Some(&pod(&name, "app=db", &[&format!("10.244.0.{}", n + 1)], &more)));
    }
    let web = json!({"podSelector": {"matchLabels": {"app": "web"}}});
    index.set_policy(&key("one"), Some(&policy(&from(&web, &json!([{"port": "http"}])))));
    let changes = index.set_policy(&key("two"), Some(&policy(&from(&web, &json!([{"port": 443}])))));
    assert_eq!(changes.pods.len(), 200);
    let places = changes.pods.values().flatten().flat_map(|pod| &pod.ingress).map(Arc::as_ptr);
    assert_eq!(
        places.collect::<BTreeSet<_>>().len(),
        2,
        "one for those with port 80, one for those with port 81"
    );
}

#[test]
fn a_pods_change_costs_what_concerns_it_net_8() {
    let mut index = Index::default();
    let number = |n: usize| format!("app=a{},team=t{}", n % 500, n % 7);
    for n in 0..5_000 {
        let name = format!("ns{}/p{n}", n % 10);
        let ip = format!("10.{}.{}.{}", 100 + n / 60_000, n / 250, n % 250 + 1);
        index.set_pod(&key(&name), Some(&pod(&name, &number(n), &[&ip], &json!({}))));
    }
    for n in 0..10 {
        index.set_namespace(&format!("ns{n}"), Some(&namespace(&format!("number=n{n}"))));
    }
    for n in 0..1_000 {
        let spec = json!({
            "podSelector": {"matchLabels": {"app": format!("a{}", n % 500)}},
            "ingress": [{"from": [
                {"podSelector": {"matchLabels": {"app": format!("a{}", (n + 10) % 500)}}},
                {"podSelector": {"matchLabels": {"app": format!("a{}", (n + 20) % 500)}},
                    "namespaceSelector": {"matchLabels": {"number": format!("n{}", n % 10)}}},
            ]}],
        });
        index.set_policy(&key(&format!("ns{}/n{n}", n % 10)), Some(&policy(&spec)));
    }
    assert_eq!((index.world().policies().count(), index.model().sets.len()), (1_000, 1_000));
    let (mut compared, mut changed) = (0, 0);
    for n in (0..5_000).step_by(50) {
        let name = format!("ns{}/p{n}", n % 10);
        let labels = number(n + 1_230);
        let ip = format!("10.100.{}.{}", n / 250, n % 250 + 1);
        compared += index.selectors_compared(&key(&name));
        let changes = index.set_pod(&key(&name), Some(&pod(&name, &labels, &[&ip], &json!({}))));
        changed += changes.sets.len() + changes.pods.len();
        compared += index.selectors_compared(&key(&name));
    }
    // Each change affects a few of a thousand policies and sets, before and after.
    assert!(changed >= 100, "{changed}");
    assert!(compared <= 100 * 2 * 10, "{compared} selectors for 100 changes");
    assert!(*index.model() == compile(index.world()));
}

#[test]
fn many_policies_at_once_are_what_they_are_one_by_one_net_8() {
    let (mut staged, mut single) = (Index::default(), Index::default());
    for n in 0..60 {
        let name = format!("p{n}");
        let ports = json!([{"name": "http", "containerPort": 80 + n % 2}]);
        let more = json!({"spec": {"containers": [{"name": "c", "ports": ports}]}});
        let own = format!("app=a{},name={name}", n % 3);
        let pod = pod(&name, &own, &[&format!("10.244.0.{}", n + 1)], &more);
        staged.stage_pod(&key(&name), Some(&pod));
        single.set_pod(&key(&name), Some(&pod));
    }
    let spec = |n: usize, port: usize| {
        let pods = if n.is_multiple_of(5) { json!({"matchLabels": {"app": "a1"}}) } else { json!({}) };
        json!({"podSelector": pods, "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": format!("a{}", n % 3)}}}],
            "ports": [{"port": port}, {"port": "http"}]}]})
    };
    // First enough changes at once that pods are matched with all their policies, then fewer.
    for (round, count) in [(0, 150), (1, 20), (2, 100)] {
        for n in 0..count {
            let policy = policy(&spec(n, 1000 * round + n));
            staged.stage_policy(&key(&format!("n{n}")), Some(&policy));
            single.set_policy(&key(&format!("n{n}")), Some(&policy));
        }
        let changes = staged.commit();
        assert_eq!(changes.pods.len(), 60);
        assert!(staged.model() == single.model() && *staged.model() == compile(staged.world()), "{round}");
        // Pods share isolations by the policies that select them and their ports.
        let places: BTreeSet<_> =
            staged.model().pods.values().flat_map(|pod| &pod.ingress).map(Arc::as_ptr).collect();
        assert_eq!(places.len(), 4);
    }
    for n in 0..150 {
        staged.stage_policy(&key(&format!("n{n}")), None);
    }
    assert!(staged.commit().pods.values().all(Option::is_none));
    assert!(staged.model().pods.is_empty());
}

/// NET-8: the cost of a rule with thousands of peers and thousands of ports is the number of peers and one list of
/// ports that they share, also with ports that other rules allow some of them.
#[test]
fn many_peers_share_many_ports_net_8() {
    const MANY: u16 = 2_000;
    let block = |n: u16| json!({"ipBlock": {"cidr": format!("192.{}.{}.0/32", n / 250, n % 250)}});
    let blocks: Vec<Value> = (0..MANY).map(block).collect();
    let ports: Vec<Value> = (0..MANY).map(|n| json!({"port": 2 * n + 1})).collect();
    let others: Vec<Value> =
        (0..MANY).map(|n| json!({"from": [block(n)], "ports": [{"port": 20_000 + n}]})).collect();
    let mut index = Index::default();
    index.set_pod(&key("db"), Some(&pod("db", "app=db", &["10.244.0.4"], &json!({}))));
    index.set_policy(
        &key("many"),
        Some(&policy(&json!({"podSelector": {}, "ingress": [{"from": blocks, "ports": ports}]}))),
    );
    index.set_policy(&key("others"), Some(&policy(&json!({"podSelector": {}, "ingress": others}))));
    assert!(*index.model() == compile(index.world()));
    let isolation = index.model().pods[&key("db")].ingress.clone().unwrap();
    assert_eq!(isolation.peers.len(), usize::from(MANY));
    let mut lists: BTreeSet<*const _> = BTreeSet::new();
    let mut ranges = 0;
    for ports in isolation.peers.values() {
        let Ports::Some(all) = ports else { panic!("{ports:?}") };
        for own in all {
            if lists.insert(std::ptr::from_ref(&**own)) {
                ranges += own.len();
            }
        }
    }
    assert_eq!((lists.len(), ranges), (usize::from(MANY) + 1, 2 * usize::from(MANY)));
    for (n, port, allowed) in
        [(0, 1, true), (7, 3999, true), (7, 2, false), (7, 20_007, true), (7, 20_008, false)]
    {
        let Value::String(cidr) = &block(n)["ipBlock"]["cidr"] else { unreachable!() };
        let ip = cidr.trim_end_matches("/32").parse().unwrap();
        let is_allowed = isolation.peers.iter().any(|(peers, ports)| {
            matches!(peers, Peers::Block(block) if block.contains(ip)) && ports.contains(Protocol::Tcp, port)
        });
        assert_eq!(is_allowed, allowed, "{ip} {port}");
    }
}
