//! Tables of services' rules, evaluated as the kernel does: a client's packet in, the endpoints that may get it out.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use fabric::nft::{Element, Family, Field, Key as FieldKey, Statement, Value as Says, Verdict};
use k8s_openapi::api::core::v1::Node;
use object::SharedObject;
use serde_json::{Value, json};

use super::base::{HAIRPIN, REFUSED, SERVED_OUTSIDE, SERVICES, TCP, UDP, reject};
use super::names;
use super::nodes::{NodeAddresses, NodesByName};
use super::owner_rules::{FamilyRules, OwnerRules};
use super::{nodes, pods, services};
use ::services::ServiceEndpoints;
use object::Key;

/// Nodes `a` and `b` at 172.20.0.1 and .2, with pods in 10.244.1.0/24 and 10.244.2.0/24, and the same in IPv6.
fn two_nodes() -> NodesByName {
    let node = |number: u8, name: &str| {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": name, "annotations": {"podium.dev/network": "fabric"},
                "labels": {"topology.kubernetes.io/zone": format!("zone-{name}")}},
            "spec": {"podCIDRs": [format!("10.244.{number}.0/24"), format!("fd00:244:0:{number}::/64")]},
            "status": {"addresses": [{"type": "InternalIP", "address": format!("172.20.0.{number}")}]}}))
        .unwrap();
        (name.to_owned(), NodeAddresses::of(&node).unwrap())
    };
    [node(1, "a"), node(2, "b")].into()
}

/// An endpoint on a node: `r`eady, `n`ot ready, `t`erminating but serving.
fn endpoint(node: u8, host: u8, state: char) -> Value {
    let name = if node == 1 { "a" } else { "b" };
    json!({"addresses": [format!("10.244.{node}.{host}")], "nodeName": name,
        "conditions": {"ready": state == 'r', "serving": state != 'n', "terminating": state == 't'},
        "targetRef": {"kind": "Pod", "name": format!("p{host}")}})
}

fn joined(spec: &Value, status: &Value, endpoints: &[Value]) -> ServiceEndpoints {
    let mut base = json!({"type": "ClusterIP", "clusterIP": "10.96.0.80", "clusterIPs": ["10.96.0.80"],
        "ports": [{"port": 80, "protocol": "TCP"}]});
    json_patch::merge(&mut base, spec);
    let metadata = json!({"name": "web", "namespace": "default"});
    let service = json!({"metadata": metadata, "spec": base, "status": status});
    let slice = |address_type: &str, endpoints: &[Value]| {
        let ports = json!([{"name": "", "port": 8080, "protocol": "TCP"},
            {"name": "dns", "port": 5353, "protocol": "UDP"}]);
        let name = format!("web-{}", address_type.to_lowercase());
        let value = json!({"metadata": {"name": name, "namespace": "default"},
            "addressType": address_type, "ports": ports, "endpoints": endpoints});
        (Key::new("default", name), SharedObject::from_value(serde_json::from_value(value).unwrap()))
    };
    let is_v6 = |endpoint: &&Value| endpoint["addresses"][0].as_str().unwrap().contains("::");
    let (v6, v4): (Vec<Value>, Vec<Value>) = endpoints.iter().cloned().partition(|endpoint| is_v6(&endpoint));
    let slices = [slice("IPv4", &v4), slice("IPv6", &v6)].into();
    ServiceEndpoints {
        service: Some(SharedObject::from_value(serde_json::from_value(service).unwrap())),
        slices,
    }
}

fn piece_of(joined: &ServiceEndpoints) -> OwnerRules {
    let services = ["10.96.0.0/16".parse().unwrap(), "fd00:96::/112".parse().unwrap()];
    services::rules_of(&Key::new("default", "web"), joined, &two_nodes(), &services)
}

/// A client whose first packet is evaluated.
struct Packet<'a> {
    client: IpAddr,
    half: &'a FamilyRules,
    /// The nodes' sets.
    nodes: Vec<FamilyRules>,
}

impl Packet<'_> {
    /// Returns the endpoints that may get the packet, `dropped`, `refused`, or `-` if no rule matches.
    fn endpoints_for(&self, to: SocketAddr, protocol: u8) -> String {
        let key = FieldKey::new().ip(to.ip()).protocol(protocol).port(to.port());
        let value_in = |map: &str| {
            let element = self.half.elements.get(map)?.iter().find(|element| element.key == key)?;
            element.value.clone()
        };
        match value_in(REFUSED).or_else(|| value_in(SERVICES)) {
            Some(Says::Verdict(verdict)) => self.verdict(&verdict),
            _ => "-".to_owned(),
        }
    }

    fn verdict(&self, verdict: &Verdict) -> String {
        match verdict {
            Verdict::Drop => "dropped".to_owned(),
            verdict if *verdict == reject() => "refused".to_owned(),
            Verdict::Goto(chain) => {
                let rules = &self.half.chains[chain].rules;
                rules.iter().find_map(|rule| self.rule(rule)).expect("a chain of a service ends")
            }
            other => panic!("no service says {other:?}"),
        }
    }

    fn rule(&self, rule: &[Statement]) -> Option<String> {
        for part in rule {
            match part {
                Statement::In(fields, set) if !self.is_in(fields, set) => return None,
                Statement::NotIn(fields, set) if self.is_in(fields, set) => return None,
                Statement::In(..) | Statement::NotIn(..) | Statement::Remember(..) => {}
                Statement::Verdict(verdict) => return Some(self.verdict(verdict)),
                Statement::Dnat(target) => return Some(target.to_string()),
                Statement::DnatAmong(targets) => {
                    return Some(targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
                }
                Statement::VerdictAmong(verdicts) => {
                    let all: Vec<String> = verdicts.iter().map(|verdict| self.verdict(verdict)).collect();
                    return Some(all.join(" "));
                }
                other => panic!("no rule of a service has {other:?}"),
            }
        }
        None
    }

    fn is_in(&self, fields: &[Field], set: &str) -> bool {
        assert_eq!(fields, [Field::SourceAddress]);
        let key = FieldKey::new().ip(self.client);
        let halves = || std::iter::once(self.half).chain(&self.nodes);
        assert!(halves().any(|half| half.sets.contains_key(set)), "the set {set} is not declared");
        let has =
            |element: &Element| element.key <= key && key <= *element.last.as_ref().unwrap_or(&element.key);
        halves().filter_map(|half| half.elements.get(set)).flatten().any(has)
    }
}

/// Packets as `client to address[/udp]`, and the result for each.
fn results_of(piece: &OwnerRules, packets: &[&str]) -> Vec<String> {
    let fare = |packet: &&str| {
        let (client, to) = packet.split_once(" to ").unwrap();
        let (to, protocol) = to.strip_suffix("/udp").map_or((to, TCP), |to| (to, UDP));
        let (client, to): (IpAddr, SocketAddr) = (client.parse().unwrap(), to.parse().unwrap());
        let family = Family::of(to.ip());
        let none = FamilyRules::default();
        let nodes = two_nodes();
        let nodes =
            nodes.iter().filter_map(|(name, place)| nodes::rules_of(name, place).halves.remove(&family));
        let half = piece.halves.get(&family).unwrap_or(&none);
        Packet { client, half, nodes: nodes.collect() }.endpoints_for(to, protocol)
    };
    packets.iter().map(fare).collect()
}

/// Both endpoints.
const ALL: &str = "10.244.1.7:8080 10.244.2.7:8080";

/// Each case: name, service spec, status, endpoints, and packets with their results.
type Case<'a> = (&'a str, Value, Value, Vec<Value>, &'a [(&'a str, &'a str)]);

#[test]
fn packets_go_where_kube_proxy_would_send_them_svc_1_net_6() {
    let both = || vec![endpoint(1, 7, 'r'), endpoint(2, 7, 'r')];
    let hinted = |hints: [Value; 2]| {
        let with = |(endpoint, hints): (Value, Value)| {
            let mut endpoint = endpoint;
            endpoint["hints"] = hints;
            endpoint
        };
        both().into_iter().zip(hints).map(with).collect::<Vec<_>>()
    };
    let zone = |name: &str| json!({"forZones": [{"name": name}]});
    let node_port = |spec: Value| {
        let mut base =
            json!({"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}]});
        json_patch::merge(&mut base, &spec);
        base
    };

    let cases: Vec<Case<'_>> = vec![
        (
            "ready ones alone",
            json!({}),
            json!({}),
            [both(), vec![endpoint(1, 8, 't'), endpoint(1, 9, 'n')]].concat(),
            &[("10.244.1.5 to 10.96.0.80:80", ALL), ("10.244.1.5 to 10.96.0.80:81", "-")],
        ),
        (
            "those that end, when none is ready",
            json!({}),
            json!({}),
            vec![endpoint(1, 8, 't'), endpoint(1, 9, 'n')],
            &[("10.244.1.5 to 10.96.0.80:80", "10.244.1.8:8080")],
        ),
        (
            "no usable endpoint",
            json!({}),
            json!({}),
            vec![endpoint(1, 9, 'n')],
            &[("10.244.1.5 to 10.96.0.80:80", "refused")],
        ),
        (
            "headless",
            json!({"clusterIP": "None", "clusterIPs": ["None"]}),
            json!({}),
            both(),
            &[("10.244.1.5 to 10.96.0.80:80", "-")],
        ),
        (
            "a name elsewhere",
            json!({"type": "ExternalName", "clusterIP": "", "clusterIPs": []}),
            json!({}),
            both(),
            &[("10.244.1.5 to 10.96.0.80:80", "-")],
        ),
        (
            "datagrams",
            json!({"ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]}),
            json!({}),
            both(),
            &[
                ("10.244.1.5 to 10.96.0.80:53/udp", "10.244.1.7:5353 10.244.2.7:5353"),
                ("10.244.1.5 to 10.96.0.80:53", "-"),
            ],
        ),
        (
            "both families",
            json!({"clusterIPs": ["10.96.0.80", "fd00:96::80"]}),
            json!({}),
            [both(), vec![json!({"addresses": ["fd00:244:0:1::7"], "nodeName": "a"})]].concat(),
            &[
                ("10.244.1.5 to 10.96.0.80:80", ALL),
                ("fd00:244:0:2::5 to [fd00:96::80]:80", "[fd00:244:0:1::7]:8080"),
            ],
        ),
        (
            "of the client's node",
            json!({"internalTrafficPolicy": "Local"}),
            json!({}),
            both(),
            &[
                ("10.244.1.5 to 10.96.0.80:80", "10.244.1.7:8080"),
                ("10.244.2.5 to 10.96.0.80:80", "10.244.2.7:8080"),
                ("172.20.0.2 to 10.96.0.80:80", "10.244.2.7:8080"),
            ],
        ),
        (
            "no endpoint on the client's node",
            json!({"internalTrafficPolicy": "Local"}),
            json!({}),
            vec![endpoint(1, 7, 'r')],
            &[("10.244.1.5 to 10.96.0.80:80", "10.244.1.7:8080"), ("10.244.2.5 to 10.96.0.80:80", "dropped")],
        ),
        (
            "node ports",
            node_port(json!({})),
            json!({}),
            both(),
            &[
                ("10.244.1.5 to 172.20.0.1:30080", ALL),
                ("10.244.1.5 to 172.20.0.2:30080", ALL),
                ("10.244.1.5 to 172.20.0.3:30080", "-"),
            ],
        ),
        (
            "node ports of the node alone",
            node_port(json!({"externalTrafficPolicy": "Local"})),
            json!({}),
            vec![endpoint(1, 7, 'r'), endpoint(1, 8, 't')],
            &[
                ("10.244.2.5 to 172.20.0.1:30080", "10.244.1.7:8080"),
                ("10.244.1.5 to 172.20.0.2:30080", "dropped"),
                ("10.244.2.5 to 10.96.0.80:80", "10.244.1.7:8080"),
            ],
        ),
        (
            "node ports without endpoints",
            node_port(json!({"externalTrafficPolicy": "Local"})),
            json!({}),
            vec![],
            &[("10.244.2.5 to 172.20.0.1:30080", "refused"), ("10.244.2.5 to 10.96.0.80:80", "refused")],
        ),
        (
            "addresses from elsewhere",
            json!({"externalIPs": ["198.51.100.1"]}),
            json!({}),
            both(),
            &[("10.244.1.5 to 198.51.100.1:80", ALL)],
        ),
        (
            "addresses of other services: of the API and the DNS, without endpoints",
            json!({"type": "LoadBalancer", "externalIPs": ["10.96.0.1", "198.51.100.1"]}),
            json!({"loadBalancer": {"ingress": [{"ip": "10.96.0.10"}]}}),
            vec![],
            &[
                ("10.244.1.5 to 10.96.0.1:80", "-"),
                ("10.244.1.5 to 10.96.0.10:80", "-"),
                ("10.244.1.5 to 198.51.100.1:80", "refused"),
            ],
        ),
        (
            "a load balancer for some",
            json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.244.1.0/25"]}),
            json!({"loadBalancer": {"ingress": [{"ip": "198.51.100.2"}, {"ip": "198.51.100.3", "ipMode": "Proxy"}]}}),
            both(),
            &[
                ("10.244.1.127 to 198.51.100.2:80", ALL),
                ("10.244.1.128 to 198.51.100.2:80", "dropped"),
                ("10.244.1.128 to 10.96.0.80:80", ALL),
                ("10.244.1.127 to 198.51.100.3:80", "-"),
            ],
        ),
        (
            "near by zone",
            json!({"trafficDistribution": "PreferClose"}),
            json!({}),
            hinted([zone("zone-a"), zone("zone-b")]),
            &[
                ("10.244.1.5 to 10.96.0.80:80", "10.244.1.7:8080"),
                ("10.244.2.5 to 10.96.0.80:80", "10.244.2.7:8080"),
                ("192.0.2.1 to 10.96.0.80:80", ALL),
            ],
        ),
        (
            "a zone without any",
            json!({}),
            json!({}),
            hinted([zone("zone-a"), zone("zone-a")]),
            &[("10.244.1.5 to 10.96.0.80:80", ALL), ("10.244.2.5 to 10.96.0.80:80", ALL)],
        ),
        (
            "one without a hint",
            json!({}),
            json!({}),
            hinted([zone("zone-a"), json!({})]),
            &[("10.244.1.5 to 10.96.0.80:80", ALL)],
        ),
        (
            "near by node",
            json!({"trafficDistribution": "PreferSameNode"}),
            json!({}),
            hinted([json!({"forNodes": [{"name": "b"}]}), json!({"forNodes": [{"name": "b"}]})]),
            &[("10.244.1.5 to 10.96.0.80:80", ALL), ("10.244.2.5 to 10.96.0.80:80", ALL)],
        ),
        (
            "clients that keep theirs",
            json!({"sessionAffinity": "ClientIP"}),
            json!({}),
            both(),
            &[("10.244.1.5 to 10.96.0.80:80", ALL)],
        ),
    ];
    for (name, spec, status, endpoints, expected) in cases {
        let piece = piece_of(&joined(&spec, &status, &endpoints));
        let packets: Vec<&str> = expected.iter().map(|(packet, _)| *packet).collect();
        let expected: Vec<&str> = expected.iter().map(|(_, goes)| *goes).collect();
        assert_eq!(results_of(&piece, &packets), expected, "{name}: {packets:?}");
    }
}

/// NET-6: a service's hairpin rules name exactly its endpoints, and each of them may reach itself.
#[test]
fn endpoints_may_reach_themselves_net_6() {
    let piece = piece_of(&joined(&json!({}), &json!({}), &[endpoint(1, 7, 'r'), endpoint(2, 7, 'r')]));
    let of = |ip: [u8; 4]| Element::new(FieldKey::new().ip(ip.into()).ip(ip.into()));
    let expected: BTreeSet<Element> = [of([10, 244, 1, 7]), of([10, 244, 2, 7])].into();
    assert_eq!(piece.halves[&Family::V4].elements[HAIRPIN], expected);
    assert_eq!(piece_of(&ServiceEndpoints::default()), OwnerRules::default());
}

/// NET-6: packets to addresses outside the cluster's ranges stay inside if a service is served there, or are rejected.
#[test]
fn addresses_outside_the_clusters_ranges_are_named_to_the_way_out_net_6() {
    let spec = json!({"type": "LoadBalancer", "externalIPs": ["203.0.113.10", "10.96.0.1"]});
    let status = json!({"loadBalancer": {"ingress": [{"ip": "198.51.100.2"}]}});
    let of = |ip: [u8; 4]| Element::new(FieldKey::new().ip(ip.into()).protocol(TCP).port(80));
    let expected: BTreeSet<Element> = [of([203, 0, 113, 10]), of([198, 51, 100, 2])].into();
    for endpoints in [vec![endpoint(1, 7, 'r')], vec![]] {
        let piece = piece_of(&joined(&spec, &status, &endpoints));
        assert_eq!(piece.halves[&Family::V4].elements[SERVED_OUTSIDE], expected);
    }
    assert!(
        !piece_of(&joined(&json!({}), &json!({}), &[])).halves[&Family::V4]
            .elements
            .contains_key(SERVED_OUTSIDE)
    );
}

/// NET-6: names in the kernel respect its limit, and differ for different services.
#[test]
fn long_names_stay_apart_net_6() {
    let long = |last: char| names::short(format!("service/{}/{}{last}", "n".repeat(63), "s".repeat(62)));
    assert_ne!(long('a'), long('b'));
    assert!(long('a').len() <= 90);
    assert_eq!(names::short("service/default/web".to_owned()), "service/default/web");
}

#[test]
fn host_ports_are_served_at_the_addresses_that_their_host_ip_includes_net_6() {
    let ips: Vec<IpAddr> = ["172.20.0.1", "fd00:20::1"].map(|ip| ip.parse().unwrap()).into();
    let places: NodesByName = [("a".to_owned(), NodeAddresses { ips, pods: Vec::new(), zone: None })].into();
    for (host_ip, expected) in [
        ("", [true, true]),
        ("0.0.0.0", [true, false]),
        ("::", [true, true]),
        ("172.20.0.1", [true, false]),
        ("fd00:20::1", [false, true]),
        ("172.20.0.9", [false, false]),
    ] {
        let ports = json!([{"containerPort": 80, "hostPort": 8080, "hostIP": host_ip}]);
        let pod = json!({"metadata": {"name": "p"},
            "spec": {"nodeName": "a", "containers": [{"name": "c", "ports": ports}]},
            "status": {"podIP": "10.244.1.2", "podIPs": [{"ip": "10.244.1.2"}, {"ip": "fd00:244::2"}]}});
        let piece = pods::rules_of("d", &serde_json::from_value(pod).unwrap(), &places);
        let is_served = |family: Family| {
            piece.halves.get(&family).is_some_and(|half: &FamilyRules| half.elements.contains_key(SERVICES))
        };
        assert_eq!([Family::V4, Family::V6].map(is_served), expected, "{host_ip}");
    }
}
