//! Tables of services' listeners and their endpoints.

use serde_json::{Value, json};

use super::*;
use crate::NodeFacts;
use ipnet::Ipv4Net;
use object::{Key, SharedObject};

/// Ports and endpoints of each slice.
type TestSlices = Vec<(Value, Vec<Value>)>;

fn machine() -> NetworkTopology {
    let node = |n: u8, start: u16| NodeFacts {
        ip: Some([127, 16, 0, n].into()),
        pods: Some(Ipv4Net::new_assert([127, 64, n, 0].into(), 24)),
        low_ports: LowPorts::below(start),
    };
    let nodes = [("n1", node(1, 0)), ("n2", node(2, 1024))].map(|(name, n)| (name.to_string(), n)).into();
    NetworkTopology { nodes, services: Ipv4Net::new_assert([127, 32, 0, 0].into(), 16), fabric: Vec::new() }
}

/// An endpoint on a node: `r`eady, `n`ot ready, `t`erminating but serving, or terminatin`g` without serving.
fn endpoint(node: u8, host: u8, state: char) -> Value {
    let (ready, serving, terminating) = match state {
        'r' => (true, true, false),
        't' => (false, true, true),
        'g' => (false, false, true),
        _ => (false, false, false),
    };
    json!({"addresses": [format!("127.64.{node}.{host}")], "nodeName": format!("n{node}"),
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": {"kind": "Pod", "name": format!("p{host}")}})
}

fn joined(spec: &Value, slices: &[(Value, Vec<Value>)]) -> ServiceEndpoints {
    let mut base = json!({"type": "ClusterIP", "clusterIP": "127.32.1.5",
        "ports": [{"port": 80, "protocol": "TCP"}]});
    json_patch::merge(&mut base, spec);
    let service = json!({"metadata": {"name": "web", "namespace": "default"}, "spec": base});
    let slices = slices.iter().enumerate().map(|(n, (ports, endpoints))| {
        let value = json!({"metadata": {"name": format!("web-{n}"), "namespace": "default"},
            "addressType": "IPv4", "ports": ports, "endpoints": endpoints});
        let slice = SharedObject::from_value(serde_json::from_value(value).unwrap());
        (Key::new("default", format!("web-{n}")), slice)
    });
    let slices = slices.collect();
    ServiceEndpoints {
        service: Some(SharedObject::from_value(serde_json::from_value(service).unwrap())),
        slices,
    }
}

/// Formats listeners as `bind_address -> ready | draining`, a line each.
fn describe_listeners(joined: &ServiceEndpoints, low_ports: LowPorts) -> Vec<String> {
    let list = |all: &[Backend]| all.iter().map(|b| b.address.to_string()).collect::<Vec<_>>().join(",");
    let line = |l: Listener| {
        let (ready, draining) = (list(&l.balance.ready), list(&l.balance.draining));
        let draining = if draining.is_empty() { draining } else { format!(" | {draining}") };
        format!("{} -> {ready}{draining}", l.bind_address)
    };
    listeners(joined, &machine(), low_ports).into_iter().map(line).collect()
}

#[test]
fn a_service_has_the_same_frontends_and_backends_as_with_kube_proxy_svc_1_net_2() {
    let http = json!([{"name": "", "port": 8080, "protocol": "TCP"}]);
    let two = vec![endpoint(1, 2, 'r'), endpoint(2, 2, 'r')];
    let cases: Vec<(&str, Value, TestSlices, &[&str])> = vec![
        (
            "ready endpoints",
            json!({}),
            vec![(http.clone(), two.clone())],
            &["127.32.1.5:80/TCP -> 127.64.1.2:8080,127.64.2.2:8080"],
        ),
        (
            "those of all slices, each once",
            json!({}),
            vec![(http.clone(), two.clone()), (http.clone(), vec![endpoint(1, 3, 'r'), endpoint(1, 2, 'r')])],
            &["127.32.1.5:80/TCP -> 127.64.1.2:8080,127.64.2.2:8080,127.64.1.3:8080"],
        ),
        (
            "terminating ones are listed apart",
            json!({}),
            vec![(http.clone(), vec![endpoint(1, 2, 't'), endpoint(1, 3, 'r'), endpoint(1, 4, 'g')])],
            &["127.32.1.5:80/TCP -> 127.64.1.3:8080 | 127.64.1.2:8080"],
        ),
        ("none that is of use", json!({}), vec![(http.clone(), vec![endpoint(1, 2, 'n')])], &[]),
        ("none at all", json!({}), vec![(json!([]), vec![])], &[]),
        ("headless", json!({"clusterIP": "None"}), vec![(http.clone(), two.clone())], &[]),
        ("ExternalName", json!({"type": "ExternalName", "clusterIP": null}), vec![], &[]),
        ("not on loopback", json!({"clusterIP": "10.96.0.5"}), vec![(http.clone(), two.clone())], &[]),
        (
            "by name and protocol",
            json!({"ports": [{"name": "dns", "port": 53, "protocol": "UDP"},
                {"name": "dns-tcp", "port": 53, "protocol": "TCP"}, {"name": "s", "port": 9, "protocol": "SCTP"}]}),
            vec![(
                json!([{"name": "dns", "port": 5353, "protocol": "UDP"},
                {"name": "dns-tcp", "port": 5354, "protocol": "TCP"}]),
                vec![endpoint(1, 2, 'r')],
            )],
            &["127.32.1.5:53/UDP -> 127.64.1.2:5353", "127.32.1.5:53/TCP -> 127.64.1.2:5354"],
        ),
        (
            "node ports",
            json!({"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}]}),
            vec![(http.clone(), vec![endpoint(1, 2, 'r')])],
            &[
                "127.32.1.5:80/TCP -> 127.64.1.2:8080",
                "127.0.0.1:30080/TCP -> 127.64.1.2:8080",
                "127.16.0.1:30080/TCP -> 127.64.1.2:8080",
                "127.16.0.2:30080/TCP -> 127.64.1.2:8080",
            ],
        ),
        (
            "node ports of the node's own",
            json!({"type": "NodePort", "externalTrafficPolicy": "Local",
                "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}]}),
            vec![(http.clone(), vec![endpoint(1, 2, 'r')])],
            &[
                "127.32.1.5:80/TCP -> 127.64.1.2:8080",
                "127.0.0.1:30080/TCP -> 127.64.1.2:8080",
                "127.16.0.1:30080/TCP -> 127.64.1.2:8080",
            ],
        ),
        (
            "external addresses, of loopback only",
            json!({"externalIPs": ["127.9.9.9", "192.0.2.1"]}),
            vec![(http.clone(), vec![endpoint(1, 2, 'r')])],
            &["127.32.1.5:80/TCP -> 127.64.1.2:8080", "127.9.9.9:80/TCP -> 127.64.1.2:8080"],
        ),
        (
            "a pod's low port is where its node serves it",
            json!({}),
            vec![(json!([{"name": null, "port": 80, "protocol": null}]), two.clone())],
            &["127.32.1.5:80/TCP -> 127.64.1.2:80,127.64.2.2:8080"],
        ),
        (
            "never itself, never a hollow pod; what was written by hand is taken as it is",
            json!({}),
            vec![(
                json!([{"name": "", "port": 30080, "protocol": "TCP"}]),
                vec![
                    json!({"addresses": ["127.32.1.5"]}),
                    json!({"addresses": ["127.0.0.1"]}),
                    json!({"addresses": ["127.16.0.1"]}),
                    json!({"addresses": ["nonsense"]}),
                    json!({"addresses": []}),
                    json!({"addresses": ["10.64.0.5"], "targetRef": {"kind": "Pod"}}),
                    json!({"addresses": ["192.0.2.7"]}),
                ],
            )],
            &["127.32.1.5:80/TCP -> 192.0.2.7:30080"],
        ),
    ];
    for (rule, spec, slices, expected) in cases {
        assert_eq!(describe_listeners(&joined(&spec, &slices), LowPorts::default()), expected, "{rule}");
    }
    assert_eq!(describe_listeners(&ServiceEndpoints::default(), LowPorts::default()), [""; 0], "gone");
}

#[test]
fn the_address_of_a_load_balancer_that_forwards_by_itself_is_not_served_net_6() {
    for (type_, mode, expected) in [
        ("LoadBalancer", json!(null), 1),
        ("LoadBalancer", json!("VIP"), 1),
        ("LoadBalancer", json!("Proxy"), 0),
        ("ClusterIP", json!("VIP"), 0),
    ] {
        let service = json!({"metadata": {"name": "web"}, "spec": {"type": type_},
            "status": {"loadBalancer": {"ingress": [{"ip": "127.16.255.1", "ipMode": mode}]}}});
        let service: Service = serde_json::from_value(service).unwrap();
        assert_eq!(balancers(&service).len(), expected, "{type_} {mode}");
    }
}

#[test]
fn a_declared_port_comes_before_one_that_moved_net_1() {
    let ports =
        json!([{"name": "a", "port": 80, "protocol": "TCP"}, {"name": "b", "port": 8080, "protocol": "TCP"}]);
    let targets = json!([{"name": "a", "port": 9001, "protocol": "TCP"}, {"name": "b", "port": 9002, "protocol": "TCP"}]);
    let joined = joined(&json!({"ports": ports}), &[(targets, vec![endpoint(1, 2, 'r')])]);
    assert_eq!(
        describe_listeners(&joined, LowPorts::below(1024)),
        ["127.32.1.5:8080/TCP -> 127.64.1.2:9002", "127.32.1.5:8080/TCP -> 127.64.1.2:9001",]
    );
}

#[test]
fn policies_and_affinity_are_read_svc_1() {
    let spec = json!({"internalTrafficPolicy": "Local", "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 7}}});
    let slices = [(json!([{"name": "", "port": 1, "protocol": "TCP"}]), vec![endpoint(1, 2, 'r')])];
    let found = listeners(&joined(&spec, &slices), &machine(), LowPorts::default());
    assert!(found[0].balance.of_clients_node);
    assert_eq!(found[0].balance.affinity, Some(Duration::from_secs(7)));
}

#[test]
fn ipv6_endpoints_are_used_if_there_are_no_others_net_9() {
    let slice = |family: &str, addresses: &[&str], kind: &str| {
        let endpoints: Vec<Value> = addresses
            .iter()
            .map(|address| json!({"addresses": [address], "targetRef": {"kind": kind}}))
            .collect();
        let value = json!({"metadata": {"name": family, "namespace": "d"}, "addressType": family,
            "ports": [{"name": "", "port": 80}], "endpoints": endpoints});
        object::SharedObject::from_value(serde_json::from_value::<EndpointSlice>(value).unwrap())
    };
    let machine = NetworkTopology { fabric: vec!["fd00:10:244::/48".parse().unwrap()], ..machine() };
    let check = |slices: &[object::SharedObject<EndpointSlice>], expected: &[&str]| {
        let slices = slices.iter().map(|slice| (slice.key(), slice.clone())).collect();
        let joined = ServiceEndpoints { service: None, slices };
        let found = endpoints_of_either_family("", Protocol::Tcp, &joined, &machine);
        let found: Vec<String> = found.ready.iter().map(|backend| backend.address.to_string()).collect();
        assert_eq!(found, expected);
    };
    let six = slice("IPv6", &["fd00:10:244::7", "fd00:99::7"], "Pod");
    check(std::slice::from_ref(&six), &["[fd00:10:244::7]:80"]);
    check(&[slice("IPv6", &["::1", "2001:db8::1", "no"], "")], &["[::1]:80", "[2001:db8::1]:80"]);
    check(&[slice("IPv4", &["127.64.1.2"], "Pod"), six], &["127.64.1.2:80"]);
}
