//! Policies × source × destination × port: the connections that are allowed. Each line is checked with the explanation
//! and with the compiled model.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::evaluate::{Packet, evaluate};
use crate::{ConnectionEnd, ConnectionQuery, Direction, PolicyInputs, Protocol, compile, explain};

/// Two teams, and pods of all sorts:
///
/// | pod | labels | addresses | ports |
/// |---|---|---|---|
/// | `web` | app=web, role=frontend | 10.244.0.2, fd00::2 | http 80 |
/// | `api` | app=api | 10.244.0.3, fd00::3 | http 8080 |
/// | `db` | app=db, role=db | 10.244.0.4, fd00::4 | sql 5432, dns 53/UDP |
/// | `other/web` | app=web, role=frontend | 10.244.1.2 | http 8081 |
/// | `other/db` | app=db | 10.244.1.3 | – |
/// | `wild/web` | app=web; nothing is known of its namespace | 10.244.1.4 | – |
/// | `agent` | app=web, of the network of node n1 | 172.20.0.1 | http 80 |
/// | `done` | app=api, has ended | 10.244.0.9 | http 8080 |
fn world() -> PolicyInputs {
    let ports = |ports: Value| json!({"spec": {"containers": [{"name": "c", "ports": ports}]}});
    let http = |number: u16| ports(json!([{"name": "http", "containerPort": number}]));
    let mut on_host = http(80);
    on_host["spec"]["hostNetwork"] = json!(true);
    let mut done = http(8080);
    done["status"] = json!({"phase": "Succeeded"});
    let sql = json!([{"name": "sql", "containerPort": 5432},
        {"name": "dns", "containerPort": 53, "protocol": "UDP"}]);
    PolicyInputs::default()
        .with_namespace("default", "kubernetes.io/metadata.name=default,team=blue")
        .with_namespace("other", "kubernetes.io/metadata.name=other,team=red")
        .with_pod("web", "app=web,role=frontend", &["10.244.0.2", "fd00::2"], &http(80))
        .with_pod("api", "app=api", &["10.244.0.3", "fd00::3"], &http(8080))
        .with_pod("db", "app=db,role=db", &["10.244.0.4", "fd00::4"], &ports(sql))
        .with_pod("other/web", "app=web,role=frontend", &["10.244.1.2"], &http(8081))
        .with_pod("other/db", "app=db", &["10.244.1.3"], &json!({}))
        .with_pod("wild/web", "app=web", &["10.244.1.4"], &json!({}))
        .with_pod("agent", "app=web", &["172.20.0.1"], &on_host)
        .with_pod("done", "app=api", &["10.244.0.9"], &done)
}

/// Parses an end: `web`, `other/web`, an address, or `node n1` and `node n2`.
fn end(text: &str) -> ConnectionEnd {
    if let Some(name) = text.strip_prefix("node ") {
        let address = if name == "n1" { "172.20.0.1" } else { "172.20.0.2" };
        return ConnectionEnd::Node { name: name.into(), address: address.parse().unwrap() };
    }
    text.parse().map_or_else(|_| ConnectionEnd::Pod(super::build::key(text)), ConnectionEnd::Address)
}

/// Returns the address of an end and the node that it belongs to.
fn locate<'a>(world: &'a PolicyInputs, end: &'a ConnectionEnd, v4: bool) -> (IpAddr, Option<&'a str>) {
    match end {
        ConnectionEnd::Address(ip) => (*ip, None),
        ConnectionEnd::Node { name, address } => (*address, Some(name)),
        ConnectionEnd::Pod(key) => {
            let pod = &world.pods[key];
            let ip = pod.ips.iter().find(|ip| ip.is_ipv4() == v4).unwrap();
            (*ip, pod.node.as_deref().filter(|_| pod.of_host))
        }
    }
}

/// Checks lines such as `web -> db 5432 yes`; a port may be `53/UDP`. With `no`, the end that refuses follows:
/// `no:egress`, `no:ingress` or `no:both`.
fn check(name: &str, policies: &[(&str, Value)], lines: &[&str]) {
    let world = policies.iter().fold(world(), |world, (name, spec)| world.with_policy(name, spec));
    let model = compile(&world);
    for line in lines {
        let (source, rest) = line.split_once(" -> ").unwrap();
        let mut fields: Vec<&str> = rest.split_whitespace().collect();
        let (expected, port) = (fields.pop().unwrap(), fields.pop().unwrap());
        let destination = fields.join(" ");
        let (port, protocol) = port.split_once('/').unwrap_or((port, "TCP"));
        let (port, protocol) = (port.parse().unwrap(), Protocol::read(Some(protocol)).unwrap());
        let (source, destination) = (end(source), end(&destination));
        let is_v4 = |end: &ConnectionEnd| !matches!(end, ConnectionEnd::Address(ip) if ip.is_ipv6());
        let v4 = is_v4(&source) && is_v4(&destination);
        let (from, from_node) = locate(&world, &source, v4);
        let (to, to_node) = locate(&world, &destination, v4);
        let packet = Packet { source: from, destination: to, nodes: [from_node, to_node], protocol, port };
        let text = |[egress, ingress]: [bool; 2]| match (egress, ingress) {
            (true, true) => "yes",
            (false, true) => "no:egress",
            (true, false) => "no:ingress",
            (false, false) => "no:both",
        };
        assert_eq!(text(evaluate(&model, &packet)), expected, "{name}: {line}, by the model {model:#?}");
        let explained = explain(&world, &ConnectionQuery { source, destination, protocol, port }).unwrap();
        let allowed = [Direction::Egress, Direction::Ingress].map(|d| explained.ruling(d).allows());
        assert_eq!(text(allowed), expected, "{name}: {line}, explained as {explained:#?}");
        assert_eq!(explained.is_allowed(), expected == "yes");
    }
}

fn app(name: &str) -> Value {
    json!({"matchLabels": {"app": name}})
}

#[test]
fn without_policies_all_is_open_net_8() {
    check("nothing", &[], &["web -> db 5432 yes", "192.0.2.1 -> db 1/UDP yes", "db -> 192.0.2.1 443 yes"]);
}

#[test]
fn the_examples_of_the_kubernetes_page_hold_net_8() {
    let all = json!({});
    check(
        "ingress and egress of a database, each with peers of all sorts",
        &[(
            "p",
            json!({
                "podSelector": {"matchLabels": {"role": "db"}}, "policyTypes": ["Ingress", "Egress"],
                "ingress": [{
                    "from": [
                        {"ipBlock": {"cidr": "172.17.0.0/16", "except": ["172.17.1.0/24"]}},
                        {"namespaceSelector": {"matchLabels": {"team": "red"}}},
                        {"podSelector": {"matchLabels": {"role": "frontend"}}},
                    ],
                    "ports": [{"protocol": "TCP", "port": 6379}],
                }],
                "egress": [{
                    "to": [{"ipBlock": {"cidr": "10.0.0.0/24"}}], "ports": [{"protocol": "TCP", "port": 5978}],
                }],
            }),
        )],
        &[
            "172.17.0.1 -> db 6379 yes", "172.17.2.1 -> db 6379 yes", "172.17.1.1 -> db 6379 no:ingress",
            "172.18.0.1 -> db 6379 no:ingress", "web -> db 6379 yes", "other/web -> db 6379 yes",
            "other/db -> db 6379 yes", "api -> db 6379 no:ingress", "wild/web -> db 6379 no:ingress",
            "web -> db 6380 no:ingress", "web -> db 6379/UDP no:ingress", "db -> 10.0.0.200 5978 yes",
            "db -> 10.0.0.200 5979 no:egress", "db -> 10.0.1.1 5978 no:egress", "db -> web 80 no:egress",
            // Replies need no rule, and other pods are not isolated.
            "web -> api 8080 yes", "other/web -> other/db 6379 yes",
        ],
    );
    check(
        "no ingress",
        &[("p", json!({"podSelector": all, "policyTypes": ["Ingress"]}))],
        &[
            "web -> db 5432 no:ingress", "192.0.2.1 -> web 80 no:ingress", "web -> other/db 80 yes",
            "web -> 192.0.2.1 443 yes", "other/web -> other/db 80 yes",
        ],
    );
    check(
        "everybody gets in, whatever else is said",
        &[
            ("open", json!({"podSelector": all, "ingress": [{}], "policyTypes": ["Ingress"]})),
            ("deny", json!({"podSelector": all, "policyTypes": ["Ingress"]})),
        ],
        &["web -> db 5432 yes", "192.0.2.1 -> db 53/UDP yes", "wild/web -> db 1/SCTP yes"],
    );
    check(
        "no egress",
        &[("p", json!({"podSelector": all, "policyTypes": ["Egress"]}))],
        &[
            "web -> db 5432 no:egress", "web -> 192.0.2.1 443 no:egress", "other/web -> db 5432 yes",
            "192.0.2.1 -> web 80 yes",
        ],
    );
    check(
        "everybody gets out, whatever else is said",
        &[
            ("open", json!({"podSelector": all, "egress": [{}], "policyTypes": ["Egress"]})),
            ("deny", json!({"podSelector": all, "policyTypes": ["Egress"]})),
        ],
        &["web -> db 5432 yes", "web -> 192.0.2.1 443 yes"],
    );
    check(
        "neither ingress nor egress",
        &[("p", json!({"podSelector": all, "policyTypes": ["Ingress", "Egress"]}))],
        &["web -> db 5432 no:both", "web -> other/db 1 no:egress", "192.0.2.1 -> db 5432 no:ingress"],
    );
    check(
        "a range of ports",
        &[(
            "p",
            json!({
                "podSelector": {"matchLabels": {"role": "db"}}, "policyTypes": ["Egress"],
                "egress": [{
                    "to": [{"ipBlock": {"cidr": "10.0.0.0/24"}}],
                    "ports": [{"protocol": "TCP", "port": 32000, "endPort": 32768}],
                }],
            }),
        )],
        &[
            "db -> 10.0.0.1 31999 no:egress", "db -> 10.0.0.1 32000 yes", "db -> 10.0.0.1 32500 yes",
            "db -> 10.0.0.1 32768 yes", "db -> 10.0.0.1 32769 no:egress",
            "db -> 10.0.0.1 32500/UDP no:egress", "db -> 10.0.1.1 32500 no:egress",
        ],
    );
    check(
        "several namespaces by their labels",
        &[(
            "p",
            json!({
                "podSelector": app("web"), "policyTypes": ["Egress"],
                "egress": [{"to": [{"namespaceSelector": {"matchExpressions":
                    [{"key": "team", "operator": "In", "values": ["red", "green"]}]}}]}],
            }),
        )],
        &[
            "web -> other/db 1 yes", "web -> db 5432 no:egress", "web -> wild/web 1 no:egress",
            "web -> 192.0.2.1 1 no:egress",
        ],
    );
    check(
        "one namespace by its name",
        &[(
            "p",
            json!({
                "podSelector": app("db"), "ingress": [{"from": [{"namespaceSelector":
                    {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}]}],
            }),
        )],
        &["other/web -> db 5432 yes", "web -> db 5432 no:ingress"],
    );
}

#[test]
fn selectors_together_and_apart_are_not_the_same_net_8() {
    let red = json!({"matchLabels": {"team": "red"}});
    let together = json!([{"namespaceSelector": red, "podSelector": app("web")}]);
    let apart = json!([{"namespaceSelector": red}, {"podSelector": app("web")}]);
    let of = |from: Value| [("p", json!({"podSelector": app("db"), "ingress": [{"from": from}]}))];
    check(
        "web of red alone",
        &of(together),
        &["other/web -> db 1 yes", "other/db -> db 1 no:ingress", "web -> db 1 no:ingress"],
    );
    check(
        "all of red, and the own web",
        &of(apart),
        &["other/web -> db 1 yes", "other/db -> db 1 yes", "web -> db 1 yes", "api -> db 1 no:ingress"],
    );
    check(
        "web of every namespace that is known",
        &of(json!([{"namespaceSelector": {}, "podSelector": app("web")}])),
        &[
            "other/web -> db 1 yes", "web -> db 1 yes", "wild/web -> db 1 no:ingress",
            "api -> db 1 no:ingress",
        ],
    );
    check(
        "all of the own namespace",
        &of(json!([{"podSelector": {}}])),
        &["web -> db 1 yes", "other/web -> db 1 no:ingress", "192.0.2.1 -> db 1 no:ingress"],
    );
}

#[test]
fn missing_and_empty_lists_mean_what_kubernetes_says_net_8() {
    let of = |more: Value| {
        let mut spec = json!({"podSelector": app("db")});
        json_patch::merge(&mut spec, &more);
        [("p", spec)]
    };
    let refused = ["web -> db 5432 no:ingress", "192.0.2.1 -> db 5432 no:ingress"];
    let open = ["web -> db 5432 yes", "192.0.2.1 -> db 5432 yes", "db -> web 80 yes"];
    let rule = |rule: Value| json!({"ingress": [rule]});
    for (name, more, lines) in [
        ("no rules", json!({}), &refused[..]),
        ("an empty list of rules", json!({"ingress": []}), &refused),
        ("an empty rule", rule(json!({})), &open),
        ("empty lists in a rule", rule(json!({"from": [], "ports": []})), &open),
        ("a selector that matches no pod", rule(json!({"from": [{"podSelector": app("absent")}]})), &refused),
        ("a peer that says nothing", rule(json!({"from": [{}]})), &refused),
        ("a block that cannot be read", rule(json!({"from": [{"ipBlock": {"cidr": "x"}}]})), &refused),
        (
            "an exception that cannot be read",
            rule(json!({"from": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["x"]}}]})),
            &refused,
        ),
        ("a port that no pod has", rule(json!({"ports": [{"port": "nothing"}]})), &refused),
        ("a port that is none", rule(json!({"ports": [{"port": 0}, {"port": 70000}]})), &refused),
        ("a range that is none", rule(json!({"ports": [{"port": 6000, "endPort": 5000}]})), &refused),
        ("a protocol that is none", rule(json!({"ports": [{"protocol": "ICMP"}]})), &refused),
        (
            "an operator that is none",
            json!({"podSelector": {"matchExpressions": [{"key": "app", "operator": "Is"}]}}),
            &open,
        ),
    ] {
        check(name, &of(more), lines);
    }
    check(
        "a policy without a spec",
        &[("p", json!(null))],
        &["web -> db 1 no:ingress", "192.0.2.1 -> web 1 no:ingress"],
    );
    check(
        "without a selector it is for all pods of its namespace",
        &[("p", json!({"ingress": [{"from": [{"podSelector": app("web")}]}]}))],
        &["web -> api 1 yes", "db -> api 1 no:ingress", "api -> other/db 1 yes"],
    );
}

#[test]
fn policy_types_default_to_ingress_and_to_egress_where_there_are_such_rules_net_8() {
    let of = |more: Value| {
        let mut spec = json!({"podSelector": app("web")});
        json_patch::merge(&mut spec, &more);
        [("p", spec)]
    };
    let to_db = json!([{"to": [{"podSelector": app("db")}]}]);
    for (name, more, lines) in [
        ("none", json!({}), ["web -> db 1 yes", "web -> api 1 yes", "db -> web 1 no:ingress"]),
        (
            "empty egress",
            json!({"egress": []}),
            ["web -> db 1 yes", "web -> api 1 yes", "db -> web 1 no:ingress"],
        ),
        (
            "egress rules",
            json!({"egress": to_db}),
            ["web -> db 1 yes", "web -> api 1 no:egress", "db -> web 1 no:ingress"],
        ),
        (
            "egress rules that do not count",
            json!({"egress": to_db, "policyTypes": ["Ingress"]}),
            ["web -> db 1 yes", "web -> api 1 yes", "db -> web 1 no:ingress"],
        ),
        (
            "ingress rules that do not count",
            json!({"ingress": [], "egress": to_db, "policyTypes": ["Egress"]}),
            ["web -> db 1 yes", "web -> api 1 no:egress", "db -> web 1 yes"],
        ),
        (
            "egress named without rules",
            json!({"policyTypes": ["Egress"]}),
            ["web -> db 1 no:egress", "web -> api 1 no:egress", "db -> web 1 yes"],
        ),
        (
            "an empty list of types is none",
            json!({"policyTypes": []}),
            ["web -> db 1 yes", "web -> api 1 yes", "db -> web 1 no:ingress"],
        ),
    ] {
        check(name, &of(more), &lines);
    }
}

#[test]
fn several_policies_add_up_and_both_ends_must_agree_net_8() {
    let from = |who: &str, port: u16| json!({"podSelector": app("db"), "ingress": [{"from": [{"podSelector": app(who)}], "ports": [{"port": port}]}]});
    check(
        "each its own port",
        &[("a", from("web", 1)), ("b", from("api", 2)), ("c", from("web", 3))],
        &[
            "web -> db 1 yes", "web -> db 2 no:ingress", "web -> db 3 yes", "api -> db 2 yes",
            "api -> db 1 no:ingress",
        ],
    );
    check(
        "one end is not enough",
        &[
            ("in", from("web", 1)),
            (
                "out",
                json!({"podSelector": app("web"), "policyTypes": ["Egress"],
                "egress": [{"to": [{"podSelector": app("api")}]}, {"ports": [{"port": 2}]}]}),
            ),
        ],
        &[
            "web -> db 1 no:egress", "web -> db 2 no:ingress", "web -> db 3 no:both", "web -> api 1 yes",
            "web -> 192.0.2.1 2 yes",
        ],
    );
    check(
        "another namespace's policy is another's",
        &[("other/p", json!({"podSelector": {}, "ingress": [{"from": [{"podSelector": app("web")}]}]}))],
        &["web -> other/db 1 no:ingress", "other/web -> other/db 1 yes", "api -> db 1 yes"],
    );
}

#[test]
fn ports_are_of_their_protocol_and_named_ones_of_who_is_connected_to_net_8() {
    let of = |ports: Value| [("p", json!({"podSelector": {}, "ingress": [{"ports": ports}]}))];
    check(
        "ingress: the isolated pod's own",
        &of(json!([{"port": "http"}])),
        &[
            "db -> web 80 yes", "db -> web 8080 no:ingress", "db -> api 8080 yes", "db -> api 80 no:ingress",
            "api -> db 80 no:ingress",
        ],
    );
    check(
        "a name is one of its protocol",
        &of(json!([{"port": "dns"}, {"port": "sql", "protocol": "UDP"}])),
        &["web -> db 53/UDP no:ingress", "web -> db 53 no:ingress", "web -> db 5432/UDP no:ingress"],
    );
    check(
        "a port's name with its protocol",
        &of(json!([{"port": "dns", "protocol": "UDP"}])),
        &["web -> db 53/UDP yes", "web -> db 53 no:ingress"],
    );
    check(
        "all ports of a protocol",
        &of(json!([{"protocol": "UDP"}])),
        &[
            "web -> db 1/UDP yes", "web -> db 65535/UDP yes", "web -> db 1 no:ingress",
            "web -> db 1/SCTP no:ingress",
        ],
    );
    check(
        "an SCTP port",
        &of(json!([{"port": 9, "protocol": "SCTP"}])),
        &["web -> db 9/SCTP yes", "web -> db 9 no:ingress"],
    );
    check(
        "ranges that meet, overlap and hold one another",
        &of(json!([{"port": 10, "endPort": 20}, {"port": 21, "endPort": 30}, {"port": 25, "endPort": 28},
            {"port": 27, "endPort": 40}, {"port": 65535}])),
        &[
            "web -> db 9 no:ingress", "web -> db 10 yes", "web -> db 21 yes", "web -> db 40 yes",
            "web -> db 41 no:ingress", "web -> db 65535 yes",
        ],
    );
    let out = |to: Value, ports: Value| {
        let spec = json!({"podSelector": app("db"), "policyTypes": ["Egress"], "egress": [{"to": to, "ports": ports}]});
        [("p", spec)]
    };
    check(
        "egress: each peer's own",
        &out(json!([{"namespaceSelector": {}}]), json!([{"port": "http"}, {"port": 443}])),
        &[
            "db -> web 80 yes", "db -> web 8080 no:egress", "db -> api 8080 yes", "db -> api 80 no:egress",
            "db -> other/web 8081 yes", "db -> other/web 80 no:egress", "db -> other/web 443 yes",
            "db -> wild/web 443 no:egress", "db -> 192.0.2.1 443 no:egress",
        ],
    );
    check(
        "egress to every peer with such a port",
        &out(Value::Null, json!([{"port": "http"}])),
        &[
            "db -> web 80 yes", "db -> other/web 8081 yes", "db -> 192.0.2.1 80 no:egress",
            "db -> 10.244.0.9 8080 no:egress",
        ],
    );
    check(
        "egress to a block's pods that have such a port",
        &out(json!([{"ipBlock": {"cidr": "10.244.1.0/24"}}]), json!([{"port": "http"}])),
        &["db -> web 80 no:egress", "db -> other/web 8081 yes", "db -> other/web 80 no:egress"],
    );
}

#[test]
fn blocks_are_addresses_of_either_family_and_pods_have_some_net_8() {
    let from = |cidr: &str, except: &[&str]| {
        let spec = json!({"podSelector": app("db"), "ingress": [{"from": [{"ipBlock": {"cidr": cidr, "except": except}}]}]});
        [("p", spec)]
    };
    check(
        "all of IPv4",
        &from("0.0.0.0/0", &[]),
        &[
            "192.0.2.1 -> db 1 yes", "web -> db 1 yes", "2001:db8::1 -> db 1 no:ingress",
            "fd00::2 -> db 1 no:ingress",
        ],
    );
    check(
        "all of IPv6 but some",
        &from("::/0", &["2001:db8::/32"]),
        &[
            "2001:db9::1 -> db 1 yes", "2001:db8::1 -> db 1 no:ingress", "192.0.2.1 -> db 1 no:ingress",
            "fd00::2 -> db 1 yes",
        ],
    );
    check(
        "an address that is not the network's first",
        &from("10.244.0.77/24", &["10.244.0.3/32"]),
        &["web -> db 1 yes", "api -> db 1 no:ingress", "other/web -> db 1 no:ingress", "agent -> db 1 yes"],
    );
    check(
        "pods are found at all their addresses",
        &[("p", json!({"podSelector": app("db"), "ingress": [{"from": [{"podSelector": app("web")}]}]}))],
        &[
            "fd00::2 -> db 1 yes", "fd00::3 -> db 1 no:ingress", "10.244.0.2 -> db 1 yes",
            "web -> fd00::4 1 yes", "api -> fd00::4 1 no:ingress",
        ],
    );
}

#[test]
fn pods_of_the_hosts_network_that_have_ended_or_are_themselves_net_8() {
    let deny = json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]});
    check(
        "a pod cannot be cut off from itself, nor from its node",
        &[("p", deny.clone())],
        &[
            "db -> db 5432 yes", "db -> 10.244.0.4 5432 yes", "node n1 -> db 5432 yes",
            "node n2 -> db 5432 no:ingress", "db -> node n1 10250 yes", "db -> node n2 10250 no:egress",
            "agent -> db 5432 yes", "172.20.0.1 -> db 5432 no:ingress",
        ],
    );
    check(
        "policies do not isolate the host's network",
        &[("p", deny)],
        &["192.0.2.1 -> agent 80 yes", "agent -> 192.0.2.1 80 yes", "agent -> other/db 80 yes"],
    );
    let from_web = json!({"podSelector": app("db"), "ingress": [{"from": [{"podSelector": app("web")}]}]});
    let mut world = world().with_policy("p", &from_web);
    let away = json!({"spec": {"hostNetwork": true, "nodeName": "n2"}});
    world.set_pod(
        &super::build::key("far"),
        Some(&super::build::pod("far", "app=web", &["172.20.0.2"], &away)),
    );
    check(
        "selectors do not find the host's network, by whatever labels",
        &[("p", from_web.clone())],
        &["172.20.0.1 -> db 1 no:ingress", "10.244.0.2 -> db 1 yes"],
    );
    let explain_from = |source: &str| {
        let (source, destination) = (end(source), end("db"));
        explain(&world, &ConnectionQuery { source, destination, protocol: Protocol::Tcp, port: 1 })
    };
    assert!(!explain_from("far").unwrap().is_allowed(), "selectors do not find it");
    assert!(explain_from("web").unwrap().is_allowed());
    assert_eq!(
        explain_from("done").unwrap_err().to_string(),
        "pod default/done has no address: it does not exist, has ended or has not started"
    );
    check(
        "an ended pod has no address any more",
        &[(
            "p",
            json!({"podSelector": app("db"),
        "ingress": [{"from": [{"podSelector": app("api")}]}]}),
        )],
        &["api -> db 1 yes", "10.244.0.9 -> db 1 no:ingress"],
    );
}

#[test]
fn pods_count_only_while_they_are_active_and_have_an_address_net_8() {
    let from_http = json!({"podSelector": {}, "ingress": [{"from": [{"podSelector": app("client")}], "ports": [{"port": "http"}]}]});
    let sidecar = json!({"spec": {"initContainers": [
        {"name": "first", "ports": [{"name": "http", "containerPort": 81}]},
        {"name": "side", "restartPolicy": "Always", "ports": [{"name": "http", "containerPort": 82}]}]}});
    let with = |status: Value| {
        let more = json!({"status": status});
        let world = PolicyInputs::default()
            .with_pod("server", "app=server", &["10.244.0.2"], &sidecar)
            .with_pod("client", "app=client", &["10.244.0.3"], &more)
            .with_policy("p", &from_http);
        let model = compile(&world);
        let gets_to = |port: u16| {
            let [source, destination] = ["10.244.0.3", "10.244.0.2"].map(|ip| ip.parse().unwrap());
            let packet = Packet { source, destination, nodes: [None; 2], protocol: Protocol::Tcp, port };
            evaluate(&model, &packet)[1]
        };
        [80, 81, 82].map(gets_to)
    };
    let (open, closed) = ([false, false, true], [false; 3]);
    for (status, expected) in [
        (json!({}), open),
        (json!({"phase": "Pending"}), open),
        (json!({"phase": "Unknown"}), open),
        (json!({"phase": null}), open),
        (json!({"phase": "Succeeded"}), closed),
        (json!({"phase": "Failed"}), closed),
        (json!({"podIP": null}), open),
        (json!({"podIPs": null}), open),
        (json!({"podIP": null, "podIPs": null}), closed),
        (json!({"podIP": "", "podIPs": []}), closed),
        (json!({"podIP": "10.244.0.300", "podIPs": [{"ip": "x"}]}), closed),
    ] {
        assert_eq!(with(status.clone()), expected, "{status}");
    }
}
