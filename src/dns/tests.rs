//! The Kubernetes DNS specification as tables, and malformed packets.

use std::net::IpAddr;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::CNAME;
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use proptest::prelude::*;
use serde_json::json;

use super::answer::{Answer, find_records};
use super::index::Index;
use super::index::testing::joined;
use super::message::{PacketAction, encode, handle_packet, rotate, udp_limit};
use object::Key;

fn index() -> Index {
    let mut index = Index::new("cluster.local", [127, 32, 0, 10].into());
    index.set_namespace("default", true);
    index.set_namespace("other", true);
    let http = json!([{"name": "http", "port": 8080, "protocol": "TCP"}]);
    let pod = |host: u8, hostname: Option<&str>| {
        json!({"addresses": [format!("127.64.0.{host}")], "hostname": hostname,
            "conditions": {"ready": true}, "targetRef": {"kind": "Pod", "name": format!("pod-{host}")}})
    };
    let unready = json!({"addresses": ["127.64.0.9"], "conditions": {"ready": false}});
    for (name, spec, ports, endpoints) in [
        (
            "web",
            json!({"clusterIP": "127.32.1.5", "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}),
            http.clone(),
            json!([pod(2, None)]),
        ),
        (
            "db",
            json!({"clusterIP": "None", "ports": [{"name": "http", "port": 80}]}),
            http.clone(),
            json!([pod(3, Some("db-0")), pod(4, None), unready.clone()]),
        ),
        (
            "early",
            json!({"clusterIP": "None", "publishNotReadyAddresses": true}),
            json!([]),
            json!([unready.clone()]),
        ),
        ("empty", json!({"clusterIP": "None"}), json!([]), json!([unready])),
        ("out", json!({"type": "ExternalName", "externalName": "example.org"}), json!([]), json!([])),
        (
            "in",
            json!({"type": "ExternalName", "externalName": "web.default.svc.cluster.local."}),
            json!([]),
            json!([]),
        ),
        (
            "lost",
            json!({"type": "ExternalName", "externalName": "no.default.svc.cluster.local"}),
            json!([]),
            json!([]),
        ),
        (
            "self",
            json!({"type": "ExternalName", "externalName": "self.default.svc.cluster.local"}),
            json!([]),
            json!([]),
        ),
        (
            "far",
            json!({"type": "ExternalName", "externalName": "out.default.svc.cluster.local"}),
            json!([]),
            json!([]),
        ),
        ("wrong", json!({"type": "ExternalName", "externalName": "a..b"}), json!([]), json!([])),
    ] {
        index.update(&Key::new("default", name), &joined(name, &spec, &ports, &endpoints));
    }
    index
}

/// Formats an answer as one line.
fn describe(answer: &Answer) -> String {
    let one = |record: &Record| format!("{} {} {}", record.ttl, record.record_type(), record.data);
    let all = |records: &[Record]| records.iter().map(one).collect::<Vec<_>>().join(", ");
    match answer {
        Answer::Records { answers, additionals } if additionals.is_empty() => all(answers),
        Answer::Records { answers, additionals } => format!("{} + {}", all(answers), all(additionals)),
        Answer::NoData => "nothing".into(),
        Answer::NxDomain => "no name".into(),
        Answer::Alias { aliases, target } => format!("{}, then {target}", all(aliases)),
        Answer::OutsideDomain => "not ours".into(),
    }
}

#[test]
fn a_service_of_two_families_has_addresses_of_both_net_3_net_5() {
    let mut index = Index::new("cluster.local", [127, 32, 0, 10].into());
    index.set_namespace("default", true);
    let ports = json!([{"name": "http", "port": 8080, "protocol": "TCP"}]);
    let pod = |ip: &str| {
        json!([{"addresses": [ip], "hostname": "db-0", "conditions": {"ready": true},
            "targetRef": {"kind": "Pod", "name": "db-0"}}])
    };
    for (name, spec) in [
        ("db", json!({"clusterIP": "None", "ports": [{"name": "http", "port": 80}]})),
        (
            "web",
            json!({"clusterIP": "10.96.1.5", "clusterIPs": ["10.96.1.5", "fd00:10:96::15"],
                "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}),
        ),
        ("six", json!({"clusterIP": "fd00:10:96::16", "ports": [{"port": 80}]})),
    ] {
        let mut both = joined(name, &spec, &ports, &pod("10.244.0.5"));
        let other = joined(name, &spec, &ports, &pod("fd00:10:244::5"));
        let slices = other.slices.into_values().map(|slice| (Key::new("default", "other"), slice));
        both.slices.extend(slices);
        index.update(&Key::new("default", name), &both);
    }
    let arpa = "5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.4.4.2.0.0.1.0.0.0.0.d.f.ip6.arpa";
    let of_service = "6.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.1.0.0.0.0.d.f.ip6.arpa";
    for (name, type_, expected) in [
        ("web.default.svc.cluster.local", RecordType::A, "30 A 10.96.1.5"),
        ("web.default.svc.cluster.local", RecordType::AAAA, "30 AAAA fd00:10:96::15"),
        ("web.default.svc.cluster.local", RecordType::ANY, "30 A 10.96.1.5, 30 AAAA fd00:10:96::15"),
        ("six.default.svc.cluster.local", RecordType::A, "nothing"),
        ("six.default.svc.cluster.local", RecordType::AAAA, "30 AAAA fd00:10:96::16"),
        ("db.default.svc.cluster.local", RecordType::AAAA, "5 AAAA fd00:10:244::5"),
        ("db-0.db.default.svc.cluster.local", RecordType::A, "5 A 10.244.0.5"),
        ("fd00-10-244--5.db.default.svc.cluster.local", RecordType::AAAA, "5 AAAA fd00:10:244::5"),
        ("fd00-10-244--5.default.pod.cluster.local", RecordType::AAAA, "5 AAAA fd00:10:244::5"),
        ("fd00-10-244--5.default.pod.cluster.local", RecordType::A, "nothing"),
        (
            "_http._tcp.db.default.svc.cluster.local",
            RecordType::SRV,
            "5 SRV 0 100 8080 db-0.db.default.svc.cluster.local. + 5 A 10.244.0.5, 5 AAAA fd00:10:244::5",
        ),
        (of_service, RecordType::PTR, "5 PTR six.default.svc.cluster.local."),
        ("6.1.ip6.arpa", RecordType::PTR, "not ours"),
        (
            "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa",
            RecordType::PTR,
            "not ours",
        ),
    ] {
        let query = Name::from_ascii(format!("{name}.")).unwrap();
        assert_eq!(describe(&find_records(&index, &query, type_)), expected, "{name} {type_}");
    }
    let query = Name::from_ascii(format!("{arpa}.")).unwrap();
    let of_pod = describe(&find_records(&index, &query, RecordType::PTR));
    assert!(of_pod.contains("db-0.db.default.svc.cluster.local."), "{of_pod}");
}

#[test]
fn names_mean_what_the_kubernetes_dns_specification_says_net_3() {
    let index = index();
    for (name, type_, expected) in [
        ("web.default.svc.cluster.local", RecordType::A, "30 A 127.32.1.5"),
        ("WEB.Default.svc.Cluster.LOCAL", RecordType::A, "30 A 127.32.1.5"),
        ("web.default.svc.cluster.local", RecordType::AAAA, "nothing"),
        ("web.default.svc.cluster.local", RecordType::MX, "nothing"),
        (
            "web.default.svc.cluster.local",
            RecordType::SRV,
            "30 SRV 0 100 80 web.default.svc.cluster.local. + 30 A 127.32.1.5",
        ),
        (
            "_http._tcp.web.default.svc.cluster.local",
            RecordType::SRV,
            "30 SRV 0 100 80 web.default.svc.cluster.local. + 30 A 127.32.1.5",
        ),
        ("_http._udp.web.default.svc.cluster.local", RecordType::SRV, "no name"),
        ("http.tcp.web.default.svc.cluster.local", RecordType::SRV, "no name"),
        ("127-64-0-2.web.default.svc.cluster.local", RecordType::A, "5 A 127.64.0.2"),
        ("db.default.svc.cluster.local", RecordType::A, "5 A 127.64.0.3, 5 A 127.64.0.4"),
        ("db.default.svc.cluster.local", RecordType::AAAA, "nothing"),
        ("db-0.db.default.svc.cluster.local", RecordType::A, "5 A 127.64.0.3"),
        ("pod-4.db.default.svc.cluster.local", RecordType::A, "5 A 127.64.0.4"),
        ("127-64-0-4.db.default.svc.cluster.local", RecordType::A, "5 A 127.64.0.4"),
        ("127-64-0-9.db.default.svc.cluster.local", RecordType::A, "no name"),
        (
            "_http._tcp.db.default.svc.cluster.local",
            RecordType::SRV,
            "5 SRV 0 50 8080 db-0.db.default.svc.cluster.local., \
             5 SRV 0 50 8080 127-64-0-4.db.default.svc.cluster.local. + 5 A 127.64.0.3, 5 A 127.64.0.4",
        ),
        ("early.default.svc.cluster.local", RecordType::A, "5 A 127.64.0.9"),
        ("empty.default.svc.cluster.local", RecordType::A, "no name"),
        ("none.default.svc.cluster.local", RecordType::A, "no name"),
        ("web.other.svc.cluster.local", RecordType::A, "no name"),
        ("out.default.svc.cluster.local", RecordType::A, "30 CNAME example.org., then example.org."),
        ("out.default.svc.cluster.local", RecordType::CNAME, "30 CNAME example.org."),
        (
            "far.default.svc.cluster.local",
            RecordType::A,
            "30 CNAME out.default.svc.cluster.local., 30 CNAME example.org., then example.org.",
        ),
        (
            "in.default.svc.cluster.local",
            RecordType::A,
            "30 CNAME web.default.svc.cluster.local., 30 A 127.32.1.5",
        ),
        ("lost.default.svc.cluster.local", RecordType::A, "30 CNAME no.default.svc.cluster.local."),
        ("wrong.default.svc.cluster.local", RecordType::A, "nothing"),
        ("x.out.default.svc.cluster.local", RecordType::A, "no name"),
        ("127-64-0-77.default.pod.cluster.local", RecordType::A, "5 A 127.64.0.77"),
        ("127-64-0-77.nowhere.pod.cluster.local", RecordType::A, "no name"),
        ("nonsense.default.pod.cluster.local", RecordType::A, "no name"),
        ("default.svc.cluster.local", RecordType::A, "nothing"),
        ("nowhere.svc.cluster.local", RecordType::A, "no name"),
        ("svc.cluster.local", RecordType::A, "nothing"),
        ("web.default.cluster.local", RecordType::A, "no name"),
        ("dns-version.cluster.local", RecordType::TXT, "30 TXT 1.1.0"),
        ("dns-version.cluster.local", RecordType::A, "nothing"),
        ("cluster.local", RecordType::NS, "30 NS ns.dns.cluster.local."),
        ("ns.dns.cluster.local", RecordType::A, "30 A 127.32.0.10"),
        ("5.1.32.127.in-addr.arpa", RecordType::PTR, "5 PTR web.default.svc.cluster.local."),
        ("3.0.64.127.in-addr.arpa", RecordType::PTR, "5 PTR db-0.db.default.svc.cluster.local."),
        ("2.0.64.127.in-addr.arpa", RecordType::PTR, "5 PTR 127-64-0-2.web.default.svc.cluster.local."),
        ("9.9.64.127.in-addr.arpa", RecordType::PTR, "no name"),
        ("5.1.32.127.in-addr.arpa", RecordType::A, "nothing"),
        ("8.8.8.8.in-addr.arpa", RecordType::PTR, "not ours"),
        ("localhost", RecordType::A, "30 A 127.0.0.1"),
        ("web", RecordType::A, "no name"),
        ("example.org", RecordType::A, "not ours"),
        ("notcluster.local", RecordType::A, "not ours"),
        (".", RecordType::NS, "not ours"),
    ] {
        let found = find_records(&index, &Name::from_ascii(name).unwrap(), type_);
        assert_eq!(describe(&found), expected, "{name} {type_}");
    }
    let circle =
        find_records(&index, &Name::from_ascii("self.default.svc.cluster.local").unwrap(), RecordType::A);
    assert!(matches!(circle, Answer::Records { answers, .. } if answers.len() == 8));
}

fn query(name: &str, type_: RecordType) -> Message {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.queries = vec![Query::query(Name::from_ascii(name).unwrap(), type_)];
    message
}

fn reply(index: &Index, request: &Message) -> Message {
    match handle_packet(index, &request.to_vec().unwrap()) {
        PacketAction::Reply(reply) => reply,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_answer_carries_its_question_and_what_a_resolver_needs_net_3() {
    let index = index();
    let request = query("WEB.default.svc.cluster.local.", RecordType::A);
    let found = reply(&index, &request);
    assert_eq!(found.metadata.id, request.metadata.id);
    assert_eq!(found.queries[0].name().to_ascii(), "WEB.default.svc.cluster.local.");
    assert_eq!(found.answers[0].name.to_ascii(), "WEB.default.svc.cluster.local.", "letters as asked");
    assert!(found.metadata.recursion_available && found.metadata.authoritative);
    let missing = reply(&index, &query("no.default.svc.cluster.local.", RecordType::A));
    assert_eq!(missing.metadata.response_code, ResponseCode::NXDomain);
    assert_eq!(missing.authorities[0].record_type(), RecordType::SOA);
    let empty = reply(&index, &query("web.default.svc.cluster.local.", RecordType::AAAA));
    assert_eq!(empty.metadata.response_code, ResponseCode::NoError);
    assert_eq!((empty.answers.len(), empty.authorities.len()), (0, 1));
    assert!(matches!(
        handle_packet(&index, &query("example.org.", RecordType::A).to_vec().unwrap()),
        PacketAction::Forward { .. }
    ));
}

#[test]
fn addresses_of_both_families_are_rotated_net_3_net_5() {
    let name = Name::from_ascii("db.default.svc.cluster.local.").unwrap();
    let rotated = |all: [RData; 3]| {
        let mut records = all.map(|data| Record::from_rdata(name.clone(), 5, data));
        rotate(&mut records, 4);
        records.map(|record| record.data.to_string())
    };
    let ips = |all: [&str; 3]| all.map(|ip| RData::from(ip.parse::<IpAddr>().unwrap()));
    assert_eq!(rotated(ips(["10.0.0.1", "10.0.0.2", "10.0.0.3"])), ["10.0.0.2", "10.0.0.3", "10.0.0.1"]);
    assert_eq!(rotated(ips(["fd00::1", "fd00::2", "fd00::3"])), ["fd00::2", "fd00::3", "fd00::1"]);
    // An alias comes before the addresses of its target.
    let [_, one, other] = ips(["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    let alias = RData::CNAME(CNAME(name.clone()));
    assert_eq!(rotated([alias, one, other]), ["db.default.svc.cluster.local.", "10.0.0.2", "10.0.0.3"]);
}

#[test]
fn unsupported_dns_queries_are_refused_sec_2() {
    let index = index();
    let name = "web.default.svc.cluster.local.";
    let mut update = query(name, RecordType::A);
    update.metadata.op_code = OpCode::Notify;
    assert_eq!(reply(&index, &update).metadata.response_code, ResponseCode::NotImp);
    let mut chaos = query(name, RecordType::TXT);
    chaos.queries[0].set_query_class(DNSClass::CH);
    assert_eq!(reply(&index, &chaos).metadata.response_code, ResponseCode::Refused);
    let mut two = query(name, RecordType::A);
    two.queries.push(two.queries[0].clone());
    assert_eq!(reply(&index, &two).metadata.response_code, ResponseCode::FormErr);
    let mut newer = query(name, RecordType::A);
    let mut edns = Edns::new();
    edns.set_version(1);
    newer.edns = Some(edns);
    assert_eq!(reply(&index, &newer).metadata.response_code, ResponseCode::BADVERS);
    let mut answer = query(name, RecordType::A);
    answer.metadata.message_type = MessageType::Response;
    assert!(matches!(handle_packet(&index, &answer.to_vec().unwrap()), PacketAction::Ignore));
    let cut = &query(name, RecordType::A).to_vec().unwrap()[..20];
    assert!(
        matches!(handle_packet(&index, cut), PacketAction::Reply(r) if r.metadata.response_code == ResponseCode::FormErr)
    );
    assert!(matches!(handle_packet(&index, &cut[..11]), PacketAction::Ignore));
}

#[test]
fn a_response_that_does_not_fit_is_truncated_and_flagged_net_3() {
    let mut index = index();
    let endpoints: Vec<_> = (0..250)
        .map(|n| json!({"addresses": [format!("127.64.7.{n}")], "conditions": {"ready": true}}))
        .collect();
    let ports = json!([{"name": "http", "port": 8080, "protocol": "TCP"}]);
    let many = joined("many", &json!({"clusterIP": "None"}), &ports, &json!(endpoints));
    index.update(&Key::new("default", "many"), &many);
    for (type_, edns, limit) in
        [(RecordType::A, None, 512), (RecordType::A, Some(1232), 1232), (RecordType::SRV, Some(9000), 4096)]
    {
        let mut request = query("many.default.svc.cluster.local.", type_);
        request.edns = edns.map(|size| {
            let mut edns = Edns::new();
            edns.set_max_payload(size);
            edns
        });
        let whole = reply(&index, &request);
        assert_eq!(whole.answers.len(), 250);
        assert_eq!(udp_limit(&request), limit);
        let packet = encode(&whole, limit).unwrap();
        assert!(packet.len() <= limit, "{} of {limit}", packet.len());
        let read = Message::from_vec(&packet).unwrap();
        assert!(read.metadata.truncation && !read.answers.is_empty());
        assert_eq!(read.edns.is_some(), edns.is_some());
        let over_tcp = Message::from_vec(&encode(&whole, 65_535).unwrap()).unwrap();
        assert_eq!((over_tcp.answers.len(), over_tcp.metadata.truncation), (250, false));
    }
}

proptest! {
    #[test]
    fn no_packet_does_harm_sec_2(packet in prop::collection::vec(any::<u8>(), 0..600)) {
        if let PacketAction::Reply(reply) = handle_packet(&index(), &packet) {
            prop_assert!(encode(&reply, 512).is_some_and(|answer| answer.len() <= 512));
        }
    }

    #[test]
    fn a_question_with_any_byte_changed_does_no_harm_sec_2(
        changes in prop::collection::vec((0usize..60, any::<u8>()), 1..6),
    ) {
        let mut packet = query("_http._tcp.db.default.svc.cluster.local.", RecordType::SRV).to_vec().unwrap();
        for (at, byte) in changes {
            if let Some(place) = packet.get_mut(at) {
                *place = byte;
            }
        }
        if let PacketAction::Reply(reply) = handle_packet(&index(), &packet) {
            prop_assert!(encode(&reply, 512).is_some_and(|answer| answer.len() <= 512));
        }
    }
}
