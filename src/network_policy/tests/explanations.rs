//! Sentences for users, word for word.

use serde_json::{Value, json};

use super::build::key;
use crate::{
    ConnectionEnd, ConnectionQuery, Direction, ImplicitAllow, PolicyInputs, Protocol, RuleName, Ruling,
    explain,
};

fn world() -> PolicyInputs {
    let sql =
        json!({"spec": {"containers": [{"name": "c", "ports": [{"name": "sql", "containerPort": 5432}]}]}});
    PolicyInputs::default()
        .with_namespace("default", "")
        .with_namespace("other", "team=red")
        .with_pod("web", "app=web", &["10.244.0.2"], &json!({}))
        .with_pod("api", "app=api", &["10.244.0.3"], &json!({}))
        .with_pod("db", "app=db", &["10.244.0.4", "fd00::4"], &sql)
        .with_pod("other/six", "app=six", &["fd00::9"], &json!({}))
        .with_policy("db-from-api", &json!({
            "podSelector": {"matchLabels": {"app": "db"}},
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "api"}}}], "ports": [{"port": 5432}]}],
        }))
}

fn pod(name: &str) -> ConnectionEnd {
    ConnectionEnd::Pod(key(name))
}

fn address(ip: &str) -> ConnectionEnd {
    ConnectionEnd::Address(ip.parse().unwrap())
}

fn query(source: ConnectionEnd, destination: ConnectionEnd, port: u16) -> ConnectionQuery {
    ConnectionQuery { source, destination, protocol: Protocol::Tcp, port }
}

fn explain_sentences(
    world: &PolicyInputs,
    source: ConnectionEnd,
    destination: ConnectionEnd,
    port: u16,
) -> Vec<String> {
    explain(world, &query(source, destination, port)).unwrap().sentences(world)
}

#[test]
fn a_refusal_names_the_accepted_peers_and_the_policy_net_8() {
    let world = world();
    assert_eq!(
        explain_sentences(&world, pod("web"), pod("db"), 5432),
        ["default/db accepts only app=api on 5432 (policy default/db-from-api): default/web may not connect"]
    );
    assert_eq!(
        explain_sentences(&world, pod("api"), pod("db"), 80),
        [
            "default/db accepts only app=api on 5432 (policy default/db-from-api): default/api may not connect on 80"
        ]
    );
    assert_eq!(
        explain_sentences(&world, address("192.0.2.7"), address("10.244.0.4"), 5432),
        ["default/db accepts only app=api on 5432 (policy default/db-from-api): 192.0.2.7 may not connect"]
    );
    assert_eq!(
        explain_sentences(&world, pod("api"), pod("db"), 5432),
        [
            "no policy isolates default/api for egress: it may connect to any address",
            "default/db accepts app=api on 5432 (policy default/db-from-api): default/api may connect on 5432",
        ]
    );
}

#[test]
fn all_isolating_policies_and_both_directions_are_explained_net_8() {
    let many: Vec<Value> = (1..=8).map(|n| json!({"ipBlock": {"cidr": format!("10.0.{n}.0/24")}})).collect();
    let world = world()
        .with_policy("admin", &json!({
            "podSelector": {"matchLabels": {"app": "db"}},
            "ingress": [
                {"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.244.0.0/16", "10.1.0.0/16"]}}]},
                {"from": [{"namespaceSelector": {"matchLabels": {"team": "red"}},
                    "podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}},
                    {"namespaceSelector": {}}], "ports": [{"port": "sql"}, {"port": 53, "protocol": "UDP"},
                    {"port": 7000, "endPort": 7010}, {"protocol": "SCTP"}]},
            ],
        }))
        .with_policy("deny", &json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}))
        .with_policy("other/out", &json!({"podSelector": {}, "policyTypes": ["Egress"],
            "egress": [{"to": many, "ports": [{"port": 443}]}, {"to": [{"podSelector": {}}]}]}));
    assert_eq!(
        explain_sentences(&world, pod("web"), pod("db"), 80),
        [
            "default/web may connect to no address (policy default/deny): it may not connect to default/db",
            "default/db accepts only 10.0.0.0/8 except 10.1.0.0/16, 10.244.0.0/16, app in (a,b) in namespaces \
             team=red, pods of any namespace on sql, 53/UDP, 7000-7010, any SCTP (policy default/admin), app=api on \
             5432 (policy default/db-from-api): default/web may not connect on 80",
        ]
    );
    assert_eq!(
        explain_sentences(&world, pod("other/six"), pod("db"), 443),
        [
            "other/six may connect only to 10.0.1.0/24, 10.0.2.0/24, 10.0.3.0/24, 10.0.4.0/24, 10.0.5.0/24 and 3 \
             more on 443, pods of namespace other (policy other/out): it may not connect to default/db",
            "default/db accepts only 10.0.0.0/8 except 10.1.0.0/16, 10.244.0.0/16, app in (a,b) in namespaces \
             team=red, pods of any namespace on sql, 53/UDP, 7000-7010, any SCTP (policy default/admin), app=api on \
             5432 (policy default/db-from-api): other/six may not connect on 443",
        ]
    );
    let explained = explain(&world, &query(pod("web"), pod("db"), 80)).unwrap();
    assert_eq!(explained.egress, Ruling::Refused { policies: vec![key("deny")], on_other_ports: vec![] });
    let name = RuleName { policy: key("admin"), direction: Direction::Ingress, rule: 1 };
    assert_eq!(name.to_string(), "default/admin, ingress[1]");
    let policies = vec![key("admin"), key("db-from-api"), key("deny")];
    assert_eq!(explained.ingress, Ruling::Refused { policies, on_other_ports: vec![name] });
    assert_eq!(explained.ruling(Direction::Ingress), &explained.ingress);
    let both = world.with_policy("more", &json!({"podSelector": {}}));
    assert_eq!(
        explain_sentences(&both, address("192.0.2.1"), pod("web"), 80),
        ["default/web accepts nothing (policies default/deny, default/more): 192.0.2.1 may not connect"]
    );
}

#[test]
fn no_sentence_is_as_long_as_a_policy_may_be_net_8() {
    let values: Vec<String> = (0..5_000).map(|n| format!("value-{n}")).collect();
    let who =
        json!({"podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": values}]}});
    let rules = vec![
        json!({"from": [who], "ports": [{"port": 1}, {"port": 3}, {"port": 5}, {"port": 7}, {"port": 9}, {"port": 11}]});
        20
    ];
    let mut world = world();
    for n in 0..20 {
        world = world.with_policy(&format!("p{n}"), &json!({"podSelector": {}, "ingress": rules}));
    }
    let sentences = explain_sentences(&world, pod("api"), pod("web"), 5432);
    assert_eq!(sentences.len(), 1);
    assert!(sentences[0].len() < 1_600, "{sentences:?}");
    assert!(
        sentences[0].contains("… on 1, 3, 5, 7, 9 and 1 more") && sentences[0].contains(") and 395 more: "),
        "{sentences:?}"
    );
}

#[test]
fn traffic_that_no_policy_can_refuse_is_explained_net_8() {
    let world =
        world().with_policy("deny", &json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}));
    let node = ConnectionEnd::Node { name: "n1".into(), address: "172.20.0.1".parse().unwrap() };
    let probed = explain(&world, &query(node.clone(), pod("db"), 1)).unwrap();
    assert_eq!((&probed.egress, &probed.ingress), (&Ruling::NoPod, &Ruling::Always(ImplicitAllow::ItsNode)));
    assert_eq!(probed.sentences(&world), ["default/db always accepts connections from its own node"]);
    assert_eq!(
        explain_sentences(&world, pod("db"), node, 10250),
        ["default/db may always connect to its own node"]
    );
    assert_eq!(
        explain_sentences(&world, pod("db"), pod("db"), 1),
        ["default/db may always connect to itself"; 2]
    );
    let far = ConnectionEnd::Node { name: "n2".into(), address: "172.20.0.2".parse().unwrap() };
    assert_eq!(
        explain_sentences(&world, far, pod("web"), 1),
        ["default/web accepts nothing (policy default/deny): node n2 may not connect"]
    );
}

#[test]
fn endpoints_without_a_common_address_family_are_reported_net_8() {
    let world = world();
    let no = |source, destination| explain(&world, &query(source, destination, 1)).unwrap_err().to_string();
    assert_eq!(
        no(pod("web"), pod("missing")),
        "pod default/missing has no address: it does not exist, has ended or has not started"
    );
    assert_eq!(
        no(pod("web"), pod("other/six")),
        "default/web and other/six have no address family in common"
    );
    // The first addresses of a common family are used.
    assert!(explain(&world, &query(pod("other/six"), pod("db"), 1)).is_ok());
}
