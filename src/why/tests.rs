//! Explanations of connections, from objects to the result.

use serde_json::{Value, json};

use super::*;
use network_policy::Protocol;
use object::TypedKind;

fn read<T: TypedKind>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Parses `namespace/name`; without a slash, the namespace is `default`.
fn key(text: &str) -> Key {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    Key::new(namespace, name)
}

fn pod(of: &str, app: &str, ip: &str, more: &Value) -> Pod {
    let key = key(of);
    let mut value = json!({
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": {"app": app}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "ports": [{"containerPort": 80, "name": "http"}]}]},
        "status": {"phase": "Running", "podIP": ip, "conditions": [{"type": "Ready", "status": "True"}]}});
    json_patch::merge(&mut value, more);
    read(value)
}

fn service(of: &str, spec: &Value) -> Service {
    let key = key(of);
    let mut value = json!({
        "metadata": {"name": key.name, "namespace": key.namespace},
        "spec": {"clusterIP": "10.96.0.7", "selector": {"app": "web"}, "ports": [{"port": 8080, "targetPort": 80}]}});
    json_patch::merge(&mut value, &json!({"spec": spec}));
    read(value)
}

/// Builds a slice of a service; each endpoint is address, pod, node, and whether it is ready.
fn slice(of: &str, endpoints: &[(&str, &str, &str, bool)], ports: &Value) -> EndpointSlice {
    let key = key(of);
    let all: Vec<Value> = endpoints
        .iter()
        .map(|(ip, pod, node, ready)| {
            json!({"addresses": [ip], "nodeName": node, "conditions": {"ready": ready},
                   "targetRef": {"kind": "Pod", "name": pod, "namespace": key.namespace}})
        })
        .collect();
    read(json!({
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": {"kubernetes.io/service-name": key.name}},
        "addressType": "IPv4", "ports": ports, "endpoints": all}))
}

fn port_80() -> Value {
    json!([{"name": "", "port": 80, "protocol": "TCP"}])
}

/// A cluster with the pods `client` and `web`, and service `web` at 10.96.0.7:8080.
fn cluster() -> Facts {
    Facts {
        pods: vec![
            pod("client", "client", "10.244.0.2", &json!({})),
            pod("web-1", "web", "10.244.0.3", &json!({})),
        ],
        services: vec![
            service("web", &json!({})),
            service(
                "kube-system/kube-dns",
                &json!({"clusterIP": "10.96.0.10", "selector": {"k8s-app": "kube-dns"}}),
            ),
        ],
        slices: vec![slice("web", &[("10.244.0.3", "web-1", "n1", true)], &port_80())],
        namespaces: vec![
            read(json!({"metadata": {"name": "default"}})),
            read(json!({"metadata": {"name": "shop"}})),
        ],
        own_network: true,
        ..Facts::default()
    }
}

fn question(destination: &str) -> ConnectionQuestion {
    let (destination, port) = Destination::parse(destination, "default").unwrap();
    ConnectionQuestion { source: key("client"), destination, port }
}

fn at(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

/// Builds probe results: listeners of `web-1`, and outcomes of attempts.
fn probe_results(listeners: &[&str], attempts: &[(&str, Outcome)]) -> ProbeResults {
    ProbeResults {
        listeners: [(key("web-1"), Ok(listeners.iter().map(|one| at(one)).collect()))].into(),
        attempts: attempts.iter().map(|(to, outcome)| (at(to), outcome.clone())).collect(),
    }
}

fn report_of(facts: &Facts, destination: &str, probed: &ProbeResults) -> Report {
    walk(facts, &question(destination)).unwrap().conclude(facts, probed)
}

const SERVICE: &str = "10.96.0.7:8080";
const POD: &str = "10.244.0.3:80";

/// Formats the state of each step, as `name✓ port✗`.
fn steps(report: &Report) -> String {
    let mark = |state| match state {
        State::Fine => '✓',
        State::Problem => '✗',
        State::Note => '·',
    };
    report.findings.iter().map(|one| format!("{}{}", one.step, mark(one.state))).collect::<Vec<_>>().join(" ")
}

#[test]
fn destinations_are_parsed_as_users_write_them_net_8() {
    let number = |port| Some(Port::Number(port));
    let name = |text: &str| Destination::Name(text.to_owned());
    for (text, expected) in [
        ("web", Ok((name("web"), None))),
        ("web:8080", Ok((name("web"), number(8080)))),
        ("web.shop:http", Ok((name("web.shop"), Some(Port::Name("http".into()))))),
        ("svc/web:80", Ok((Destination::Service(key("web")), number(80)))),
        ("svc/shop/web", Ok((Destination::Service(key("shop/web")), None))),
        ("pod/web", Ok((Destination::Pod(key("web")), None))),
        ("shop/web-1:80", Ok((Destination::Pod(key("shop/web-1")), number(80)))),
        ("10.96.0.1:443", Ok((Destination::Address("10.96.0.1".parse().unwrap()), number(443)))),
        ("fd00::1", Ok((Destination::Address("fd00::1".parse().unwrap()), None))),
        ("[fd00::1]:80", Ok((Destination::Address("fd00::1".parse().unwrap()), number(80)))),
        ("http://web/x?y", Ok((name("web"), number(80)))),
        ("https://example.com:8443/", Ok((name("example.com"), number(8443)))),
        ("web:0", Err("invalid port")),
        ("web:70000", Err("invalid port")),
        ("web:", Err("invalid port")),
        ("", Err("invalid destination")),
        ("a b", Err("invalid destination")),
        ("[fd00::1", Err("no closing bracket")),
        ("svc/a/b/c", Err("expected NAMESPACE/NAME")),
        ("shop/", Err("expected NAMESPACE/NAME")),
    ] {
        match (Destination::parse(text, "default"), expected) {
            (Ok(read), Ok(expected)) => assert_eq!(read, expected, "{text}"),
            (Err(misuse), Err(part)) => assert!(misuse.0.contains(part), "{text}: {misuse}"),
            (read, expected) => panic!("{text}: {read:?}, not {expected:?}"),
        }
    }
}

#[test]
fn an_open_path_is_explained_step_by_step_net_8() {
    let facts = cluster();
    let works = probe_results(&["0.0.0.0:80"], &[(SERVICE, Outcome::Connected), (POD, Outcome::Connected)]);
    for destination in ["web", "web:8080", "web.default.svc.cluster.local:8080"] {
        let report = report_of(&facts, destination, &works);
        assert_eq!(steps(&report), "name✓ port✓ endpoints✓ policy✓ listener✓ connection✓", "{destination}");
        assert_eq!(report.last_line(), "connected: 10.96.0.7:8080 answers");
        assert_eq!(report.findings[0].text.matches("web.default.svc.cluster.local").count(), 1);
    }
    for destination in ["svc/web", "10.96.0.7:8080"] {
        let report = report_of(&facts, destination, &works);
        assert_eq!(steps(&report), "port✓ endpoints✓ policy✓ listener✓ connection✓", "{destination}");
    }
    let report = report_of(&facts, "pod/web-1", &works);
    assert_eq!(steps(&report), "port✓ policy✓ listener✓ connection✓");
    let walk = walk(&facts, &question("web")).unwrap();
    assert_eq!(walk.attempts(), [at(SERVICE), at(POD)]);
    assert_eq!(walk.listeners(), [key("web-1")].into());
}

/// Each classic mistake: what is wrong, the step that finds it, and the message.
#[test]
fn each_mistake_is_named_at_its_step_net_8() {
    let broken = |change: &dyn Fn(&mut Facts)| {
        let mut facts = cluster();
        change(&mut facts);
        facts
    };
    let unready = |more: &Value| {
        let more = more.clone();
        broken(&move |facts: &mut Facts| {
            facts.pods[1] = pod("web-1", "web", "10.244.0.3", &more);
            facts.slices = vec![slice("web", &[("10.244.0.3", "web-1", "n1", false)], &port_80())];
        })
    };
    let late = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let crashing = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [
        {"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 3,
         "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}});
    let denied = |facts: &mut Facts| {
        facts.policies = vec![read(json!({
            "metadata": {"name": "deny", "namespace": "default"}, "spec": {"podSelector": {"matchLabels": {"app": "web"}}}}))];
    };
    let shut_in = |facts: &mut Facts| {
        facts.policies = vec![read(json!({
            "metadata": {"name": "shut-in", "namespace": "default"},
            "spec": {"podSelector": {"matchLabels": {"app": "client"}}, "policyTypes": ["Egress"],
                     "egress": [{"to": [{"podSelector": {}}]}]}}))];
    };
    let none = ProbeResults::default();
    let refused = |listeners: &[&str]| {
        probe_results(listeners, &[(SERVICE, Outcome::Refused), (POD, Outcome::Refused)])
    };
    let (to_itself, at_3000, no_listener) =
        (refused(&["127.0.0.1:80"]), refused(&["0.0.0.0:3000"]), refused(&[]));
    let dropped = probe_results(&["0.0.0.0:80"], &[(SERVICE, Outcome::TimedOut), (POD, Outcome::TimedOut)]);
    let probe = |facts: &mut Facts| {
        drop(facts.probes.insert(key("web-1"), "HTTP probe failed with statuscode: 500".into()));
    };
    let failing = {
        let mut facts = unready(&late);
        probe(&mut facts);
        facts
    };
    let cases: Vec<(&str, Facts, &str, &ProbeResults, &str, &str)> = vec![
        ("a name that is not there", cluster(), "wbe", &none, "name✗", "did you mean service web?"),
        (
            "a service of another namespace",
            broken(&|facts| facts.services.push(service("shop/db", &json!({"clusterIP": "10.96.0.9"})))),
            "db:5432",
            &none,
            "name✗",
            "db does not resolve: not found with any suffix of the search path; service db is in another \
             namespace; use db.shop",
        ),
        (
            "a wrong port",
            cluster(),
            "web:8081",
            &none,
            "name✓ port✗",
            "service default/web has no port 8081; use 8080",
        ),
        (
            "the pods' port",
            cluster(),
            "web:80",
            &none,
            "name✓ port✗",
            "80 is the pods' port (targetPort); clients use 8080",
        ),
        (
            "a selector that matches no pod",
            broken(&|facts| {
                facts.services[0] = service("web", &json!({"selector": {"app": "wbe"}}));
                facts.slices.clear();
            }),
            "web",
            &none,
            "name✓ port✓ endpoints✗",
            "no endpoints: the selector app=wbe matches no pod in namespace default; make the selector and \
             the pods' labels agree",
        ),
        (
            "a name of a port that no pod has",
            broken(&|facts| {
                facts.services[0] =
                    service("web", &json!({"ports": [{"port": 8080, "targetPort": "https"}]}));
                facts.slices = vec![slice("web", &[("10.244.0.3", "web-1", "n1", true)], &json!([]))];
            }),
            "web",
            &none,
            "name✓ port✓ endpoints✗",
            "no pod has a port named \"https\"",
        ),
        (
            "a pod that is not ready",
            unready(&late),
            "web",
            &none,
            "name✓ port✓ endpoints✗",
            "no endpoints: its one pod is not ready",
        ),
        (
            "a pod that crashes",
            unready(&crashing),
            "web",
            &none,
            "name✓ port✓ endpoints✗",
            "its one pod is not ready",
        ),
        (
            "a probe that fails", failing, "web", &none, "name✓ port✓ endpoints✗",
            "kubectl describe pod -n default web-1",
        ),
        (
            "no endpoint on the source's node",
            broken(&|facts| {
                facts.services[0] = service("web", &json!({"internalTrafficPolicy": "Local"}));
                facts.slices = vec![slice("web", &[("10.244.0.3", "web-1", "n2", true)], &port_80())];
            }),
            "web",
            &none,
            "name✓ port✓ endpoints✗",
            "no endpoint on n1, the source's node, and internalTrafficPolicy is Local (1 on other nodes)",
        ),
        (
            "a policy of the destination",
            broken(&denied),
            "web",
            &dropped,
            "name✓ port✓ endpoints✓ policy✗ listener✓ connection✗",
            "policy default/deny (ingress) does not allow connections to the destination",
        ),
        (
            "a policy of the source, and DNS",
            broken(&shut_in),
            "web",
            &none,
            "name✗",
            "network policies block the pod's queries to the cluster's DNS",
        ),
        (
            "a policy of the source",
            broken(&|facts| {
                shut_in(facts);
                facts.pods[1].metadata.namespace = Some("shop".into());
            }),
            "shop/web-1",
            &dropped,
            "port✓ policy✗ connection✗",
            "policy default/shut-in (egress) does not allow connections from the source",
        ),
        (
            "a program that listens to itself",
            cluster(),
            "web",
            &to_itself,
            "name✓ port✓ endpoints✓ policy✓ listener✗ connection✗",
            "pod default/web-1 listens only at 127.0.0.1:80, which other pods cannot reach; make the program \
             listen at 0.0.0.0:80",
        ),
        (
            "a program that listens elsewhere",
            cluster(),
            "web",
            &at_3000,
            "name✓ port✓ endpoints✓ policy✓ listener✗ connection✗",
            "no program in pod default/web-1 listens at port 80; the pod listens at 0.0.0.0:3000",
        ),
        (
            "a program that does not listen",
            cluster(),
            "pod/web-1:80",
            &no_listener,
            "port✓ policy✓ listener✗ connection✗",
            "no program in pod default/web-1 listens at port 80 or any other port",
        ),
        (
            "a pod that is gone",
            broken(&|facts| {
                facts.nodes =
                    vec![read(json!({"metadata": {"name": "n1"}, "spec": {"podCIDR": "10.244.0.0/24"}}))];
            }),
            "10.244.0.99:80",
            &none,
            "name✗",
            "no pod has 10.244.0.99, an address of the pod network",
        ),
        (
            "no such pod",
            cluster(),
            "pod/web",
            &none,
            "name✗",
            "pod default/web not found; did you mean default/web-1?",
        ),
        ("no such service", cluster(), "svc/webb:1", &none, "name✗", "did you mean default/web?"),
        (
            "a source that does not run",
            broken(&|facts| {
                facts.pods[0] =
                    pod("client", "client", "10.244.0.2", &json!({"status": {"phase": "Succeeded"}}));
            }),
            "web",
            &none,
            "source✗",
            "pod default/client is not running: completed",
        ),
        (
            "a name of the world that is not there",
            broken(&|facts| drop(facts.outside.insert("nowhere.example".into(), vec![]))),
            "nowhere.example:80",
            &none,
            "name✗",
            "cannot be resolved by the machine's resolvers",
        ),
        (
            "a pod that asks the machine about names",
            broken(&|facts| {
                facts.pods[0] =
                    pod("client", "client", "10.244.0.2", &json!({"spec": {"dnsPolicy": "Default"}}));
                facts.outside.insert("web".into(), vec![]);
            }),
            "web:8080",
            &none,
            "name· name✗",
            "cannot be resolved by the machine's resolvers",
        ),
    ];
    for (what, facts, destination, probed, expected, reason) in cases {
        let report = report_of(&facts, destination, probed);
        assert_eq!(steps(&report), expected, "{what}: {report:#?}");
        assert!(!report.verdict.connected, "{what}");
        let line = report.last_line();
        assert!(line.starts_with("not connected: ") && line.contains(reason), "{what}: {line}");
    }
}

#[test]
fn a_finding_shows_the_closest_match_with_the_problem_net_8() {
    let mut facts = cluster();
    facts.services[0] = service("web", &json!({"selector": {"app": "wbe"}}));
    facts.slices.clear();
    let report = report_of(&facts, "web", &ProbeResults::default());
    assert_eq!(report.findings[2].details[0], "default/web-1 has app=web, not app=wbe");

    let mut facts = cluster();
    facts.pods[1] = pod(
        "web-1",
        "web",
        "10.244.0.3",
        &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
    );
    facts.slices = vec![slice("web", &[("10.244.0.3", "web-1", "n1", false)], &port_80())];
    facts.probes.insert(key("web-1"), "HTTP probe failed with statuscode: 500".into());
    let report = report_of(&facts, "web", &ProbeResults::default());
    let expected =
        "default/web-1: running, but its readiness probe fails: HTTP probe failed with statuscode: 500";
    assert_eq!(report.findings[2].details, [expected]);

    let report = report_of(&cluster(), "wbe", &ProbeResults::default());
    let tried: Vec<&str> = report.findings[0].details.iter().map(String::as_str).collect();
    assert_eq!(tried[0], "wbe.default.svc.cluster.local. NXDOMAIN");
    assert_eq!(tried.last(), Some(&"wbe. NXDOMAIN"));
}

#[test]
fn several_endpoints_are_reported_separately_net_8() {
    let mut facts = cluster();
    facts.pods.push(pod("web-2", "web", "10.244.0.4", &json!({})));
    let ends = [("10.244.0.3", "web-1", "n1", true), ("10.244.0.4", "web-2", "n1", true)];
    facts.slices = vec![slice("web", &ends, &port_80())];
    let mut probed =
        probe_results(&["0.0.0.0:80"], &[(SERVICE, Outcome::Connected), (POD, Outcome::Connected)]);
    probed.listeners.insert(key("web-2"), Ok(vec![at("127.0.0.1:80")]));
    probed.attempts.insert(at("10.244.0.4:80"), Outcome::Refused);
    let report = report_of(&facts, "web", &probed);
    assert!(report.verdict.connected, "it is, this time");
    assert_eq!(
        report.last_line(),
        "connected: 10.96.0.7:8080 answers, though 1 of 2 endpoints do not; pod default/web-2 listens only \
         at 127.0.0.1:80, which other pods cannot reach (1 of 2 endpoints)"
    );
    probed.attempts.insert(at(SERVICE), Outcome::Refused);
    assert!(!report_of(&facts, "web", &probed).verdict.connected);
}

#[test]
fn without_networks_of_their_own_policies_are_not_enforced_net_8() {
    let mut facts = cluster();
    facts.own_network = false;
    facts.policies = vec![read(json!({
        "metadata": {"name": "deny", "namespace": "default"}, "spec": {"podSelector": {}}}))];
    // In a loopback network, a low port is served at a port 8000 higher.
    let works =
        probe_results(&["10.244.0.3:8080"], &[(SERVICE, Outcome::Connected), (POD, Outcome::Connected)]);
    let report = report_of(&facts, "web", &works);
    assert_eq!(steps(&report), "name✓ port✓ endpoints✓ policy· listener✓ connection✓");
    assert!(
        report.findings[3].text.ends_with("not enforced here, as pods share the machine's network"),
        "{report:?}"
    );
    assert!(report.verdict.connected);
}

#[test]
fn a_service_is_found_by_its_external_addresses_net_8() {
    let mut facts = cluster();
    facts.services[0] = service("web", &json!({"type": "LoadBalancer", "externalIPs": ["203.0.113.10"]}));
    facts.services[0].status = read::<Service>(json!({"metadata": {}, "status": {"loadBalancer": {"ingress":
        [{"ip": "203.0.113.11"}, {"ip": "203.0.113.12", "ipMode": "Proxy"}]}}}))
    .status;
    for ip in ["203.0.113.10", "203.0.113.11"] {
        let walk = walk(&facts, &question(&format!("{ip}:8080"))).unwrap();
        assert_eq!(walk.attempts(), [at(&format!("{ip}:8080")), at(POD)]);
    }
    let outside = walk(&facts, &question("203.0.113.12:8080")).unwrap();
    assert_eq!(outside.attempts(), [at("203.0.113.12:8080")], "packets to a proxy go to the proxy");
}

#[test]
fn a_headless_service_is_its_pods_net_8() {
    let mut facts = cluster();
    facts.services[0] = service("web", &json!({"clusterIP": "None"}));
    let works = probe_results(&["0.0.0.0:80"], &[(POD, Outcome::Connected)]);
    let report = report_of(&facts, "web:80", &works);
    assert_eq!(steps(&report), "name✓ port✓ endpoints✓ policy✓ listener✓ connection✓");
    assert_eq!(report.last_line(), "connected: 10.244.0.3:80 answers");
    // The service's port does not apply: no proxy translates it.
    let refused = probe_results(&["0.0.0.0:80"], &[("10.244.0.3:8080", Outcome::Refused)]);
    let report = report_of(&facts, "web:8080", &refused);
    assert!(
        report.last_line().contains("no program in pod default/web-1 listens at port 8080"),
        "{}",
        report.last_line()
    );
}

#[test]
fn the_endpoints_are_those_that_the_service_proxy_chooses_net_8() {
    let attempts = |spec: &Value, endpoints: &[(&str, &Value)], to: &str| -> Vec<String> {
        let endpoint = |(n, (node, conditions)): (usize, &(&str, &Value))| json!({"addresses": [format!("10.244.1.{n}")], "nodeName": node, "conditions": conditions});
        let endpoints: Vec<Value> = endpoints.iter().enumerate().map(endpoint).collect();
        let mut all = json!(slice("web", &[], &port_80()));
        all["endpoints"] = endpoints.into();
        let mut facts = cluster();
        facts.services[0] = service("web", spec);
        facts.slices = vec![read(all)];
        walk(&facts, &question(to)).unwrap().attempts().iter().map(ToString::to_string).collect()
    };
    let serving = json!({"ready": false, "serving": true});
    let draining = json!({"ready": false, "serving": true, "terminating": true});
    let ready = json!({"ready": true});
    let (any, local) = (json!({}), json!({"internalTrafficPolicy": "Local"}));
    for (rule, spec, endpoints, expected) in [
        ("none that is not ready", &any, vec![("n1", &serving)], vec![]),
        ("terminating ones without others", &any, vec![("n1", &draining)], vec![SERVICE, "10.244.1.0:80"]),
        ("ready ones", &any, vec![("n1", &draining), ("n2", &ready)], vec![SERVICE, "10.244.1.1:80"]),
        (
            "of the node alone",
            &local,
            vec![("n1", &draining), ("n2", &ready)],
            vec![SERVICE, "10.244.1.0:80"],
        ),
    ] {
        assert_eq!(attempts(spec, &endpoints, "svc/web"), expected, "{rule}");
    }
    // The policy is for clients of the cluster IP.
    let headless = json!({"clusterIP": "None", "internalTrafficPolicy": "Local"});
    assert_eq!(attempts(&headless, &[("n2", &ready)], "svc/web:80"), ["10.244.1.0:80"]);
}

#[test]
fn a_wrong_query_explains_the_correct_form_net_8() {
    let mut facts = cluster();
    facts.services[0] =
        service("web", &json!({"ports": [{"port": 1, "name": "a"}, {"port": 2, "name": "b"}]}));
    let misuse = |destination: &str| walk(&facts, &question(destination)).unwrap_err().0;
    assert!(misuse("web").contains("has 2 ports; choose one: 1/TCP (a)"), "{}", misuse("web"));
    assert!(misuse("192.0.2.1").contains("use DESTINATION:PORT"));
    assert!(misuse("pod/web-1:grpc").contains("declares no port grpc"));
    let unknown = ConnectionQuestion { source: key("missing"), ..question("web:1") };
    assert_eq!(walk(&facts, &unknown).unwrap_err().0, "pod default/missing not found");
}

#[test]
fn datagrams_are_not_tried_net_8() {
    let mut facts = cluster();
    facts.services[0] =
        service("web", &json!({"ports": [{"port": 53, "protocol": "UDP", "targetPort": 80}]}));
    let walk = walk(&facts, &question("web:53")).unwrap();
    assert!(walk.attempts().is_empty());
    let report = walk.conclude(&facts, &ProbeResults::default());
    assert_eq!(report.last_line(), "connected: found no problem, but UDP cannot be tested with a connection");
}

#[test]
fn a_pods_port_has_the_protocol_that_the_pod_declares_net_8() {
    let mut facts = cluster();
    let ports = json!([{"containerPort": 53, "name": "dns", "protocol": "UDP"},
        {"containerPort": 54, "protocol": "UDP"}, {"containerPort": 54}]);
    let containers = json!({"spec": {"containers": [{"name": "c", "ports": ports}]}});
    facts.pods[1] = pod("web-1", "web", "10.244.0.3", &containers);
    for (destination, expected) in [
        ("pod/web-1:53", Protocol::Udp),
        ("pod/web-1:dns", Protocol::Udp),
        ("pod/web-1:54", Protocol::Tcp),
        ("pod/web-1:99", Protocol::Tcp),
    ] {
        assert_eq!(walk(&facts, &question(destination)).unwrap().protocol(), expected, "{destination}");
    }
    let ports = json!([{"port": 53, "protocol": "UDP", "targetPort": 80}]);
    facts.services[0] = service("web", &json!({"clusterIP": "None", "ports": ports}));
    let walk = walk(&facts, &question("svc/web:53")).unwrap();
    assert_eq!((walk.protocol(), walk.listeners()), (Protocol::Udp, [key("web-1")].into()));
}

/// For UDP, only listeners can be checked.
#[test]
fn udp_ports_without_a_listener_are_reported_net_8() {
    let mut facts = cluster();
    facts.services[0] =
        service("web", &json!({"ports": [{"port": 53, "protocol": "UDP", "targetPort": 80}]}));
    for (listeners, expected) in [
        (vec!["0.0.0.0:80"], "connected: found no problem, but UDP cannot be tested with a connection"),
        (vec!["0.0.0.0:81"], "not connected: no program in pod"),
        (vec!["127.0.0.1:80"], "listens only at 127.0.0.1:80"),
    ] {
        let walk = walk(&facts, &question("web:53")).unwrap();
        assert_eq!(walk.protocol(), Protocol::Udp);
        let all: Vec<SocketAddr> = listeners.iter().map(|text| text.parse().unwrap()).collect();
        let listeners = walk.listeners().into_iter().map(|pod| (pod, Ok(all.clone()))).collect();
        let report = walk.conclude(&facts, &ProbeResults { listeners, ..ProbeResults::default() });
        assert!(report.last_line().contains(expected), "{}", report.last_line());
    }
}

#[test]
fn external_names_are_resolved_by_the_machines_resolvers_net_8() {
    let mut facts = cluster();
    facts.services.push(service(
        "db",
        &json!({"type": "ExternalName", "externalName": "db.example.com", "clusterIP": null}),
    ));
    assert_eq!(outside_name(&facts, &question("example.com:80")).as_deref(), Some("example.com"));
    assert_eq!(outside_name(&facts, &question("db:5432")).as_deref(), Some("db.example.com"));
    assert_eq!(outside_name(&facts, &question("svc/db:5432")).as_deref(), Some("db.example.com"));
    assert_eq!(outside_name(&facts, &question("web:80")), None);
    facts.outside.insert("db.example.com".into(), vec!["192.0.2.9".parse().unwrap()]);
    let probed = probe_results(&[], &[("192.0.2.9:5432", Outcome::TimedOut)]);
    let report = report_of(&facts, "db:5432", &probed);
    assert_eq!(steps(&report), "name✓ port✓ policy✓ connection✗");
    assert!(report.last_line().starts_with("not connected: 192.0.2.9:5432 does not answer in time"));
}

#[test]
fn names_with_ipv6_addresses_alone_need_a_source_with_one_net_8() {
    let ips = |all: &[&str]| -> Vec<IpAddr> { all.iter().map(|ip| ip.parse().unwrap()).collect() };
    let mut facts = cluster();
    facts.outside.insert("six.example".into(), ips(&["2001:db8::9"]));
    facts.outside.insert("both.example".into(), ips(&["2001:db8::9", "192.0.2.9"]));
    let report = report_of(&facts, "six.example:80", &ProbeResults::default());
    assert_eq!(steps(&report), "name✗");
    let reason = "six.example has only IPv6 addresses, and pod default/client only IPv4 addresses";
    assert!(report.last_line().contains(reason), "{}", report.last_line());
    // A dual-stack cluster.
    let both = json!({"status": {"podIPs": [{"ip": "10.244.0.2"}, {"ip": "fd00:10:244::2"}]}});
    facts.pods[0] = pod("client", "client", "10.244.0.2", &both);
    let attempts = |facts: &Facts, name: &str| walk(facts, &question(name)).unwrap().attempts();
    assert_eq!(attempts(&facts, "six.example:80"), [at("[2001:db8::9]:80")]);
    assert_eq!(attempts(&facts, "both.example:80"), [at("192.0.2.9:80")]);
    let probed = probe_results(&[], &[("[2001:db8::9]:80", Outcome::Connected)]);
    let report = report_of(&facts, "six.example:80", &probed);
    assert!(report.verdict.connected, "{report:#?}");
    // An IPv6 cluster.
    let six = json!({"status": {"podIPs": [{"ip": "fd00:10:244::2"}]}});
    facts.pods[0] = pod("client", "client", "fd00:10:244::2", &six);
    assert_eq!(attempts(&facts, "both.example:80"), [at("[2001:db8::9]:80")]);
    // The machine's network, which may have IPv6.
    facts.pods[0] = pod("client", "client", "127.0.0.2", &json!({}));
    facts.own_network = false;
    assert_eq!(attempts(&facts, "six.example:80"), [at("[2001:db8::9]:80")]);
}

#[test]
fn ipv6_addresses_of_services_and_pods_are_followed_net_5_net_8() {
    let (service_6, pod_6) = (at("[fd00:10:96::7]:8080"), at("[fd00:10:244::3]:80"));
    let attempts = |facts: &Facts, to: &str| walk(facts, &question(to)).unwrap().attempts();
    let mut facts = cluster();
    let both = json!({"status": {"podIPs": [{"ip": "10.244.0.3"}, {"ip": "fd00:10:244::3"}]}});
    facts.pods[1] = pod("web-1", "web", "10.244.0.3", &both);
    let mut six = slice("web", &[("fd00:10:244::3", "web-1", "n1", true)], &port_80());
    six.address_type = "IPv6".into();
    six.metadata.name = Some("web-6".into());
    facts.slices.push(six);
    // A service of both families.
    let ips = json!({"clusterIPs": ["10.96.0.7", "fd00:10:96::7"], "ipFamilies": ["IPv4", "IPv6"]});
    facts.services[0] = service("web", &ips);
    assert_eq!(attempts(&facts, "web"), [at(SERVICE), at(POD)]);
    assert_eq!(attempts(&facts, "[fd00:10:96::7]:8080"), [service_6, pod_6]);
    // A name is connected to at the address that it has, also if another one is primary.
    let ips = json!({"clusterIP": "fd00:10:96::7", "clusterIPs": ["fd00:10:96::7", "10.96.0.7"]});
    facts.services[0] = service("web", &ips);
    assert_eq!(attempts(&facts, "web"), [at(SERVICE), at(POD)]);
    assert_eq!(attempts(&facts, "svc/web"), [service_6, pod_6]);
    // A service of IPv6 alone.
    facts.slices.remove(0);
    let ips = json!({"clusterIP": "fd00:10:96::7", "clusterIPs": ["fd00:10:96::7"], "ipFamilies": ["IPv6"]});
    facts.services[0] = service("web", &ips);
    for to in ["web", "svc/web", "[fd00:10:96::7]:8080"] {
        assert_eq!(attempts(&facts, to), [service_6, pod_6], "{to}");
    }
    facts.services[0] = service("web", &json!({"clusterIP": "None", "ipFamilies": ["IPv6"]}));
    for to in ["web:80", "svc/web:80", "web-1.web.default.svc.cluster.local:80"] {
        assert_eq!(attempts(&facts, to), [pod_6], "{to}");
    }
    // A pod's address, and one that no pod has.
    assert_eq!(attempts(&facts, "[fd00:10:244:0::3]:80"), [pod_6]);
    let ranges = json!({"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24", "fd00:10:244::/64"]});
    facts.nodes = vec![read(json!({"metadata": {"name": "n1"}, "spec": ranges}))];
    let report = report_of(&facts, "[fd00:10:244::99]:80", &ProbeResults::default());
    let reason = "no pod has fd00:10:244::99, an address of the pod network";
    assert!(report.last_line().contains(reason), "{}", report.last_line());
}

#[test]
fn policies_that_select_a_pod_are_listed_with_their_allowed_traffic_net_8() {
    let mut facts = cluster();
    assert!(selecting(&facts, &key("web-1")).is_empty());
    facts.policies = vec![
        read(json!({"metadata": {"name": "some", "namespace": "default"}, "spec": {
            "podSelector": {"matchLabels": {"app": "web"}},
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "client"}}}], "ports": [{"port": 80}]}]}})),
        read(json!({"metadata": {"name": "shut", "namespace": "default"}, "spec": {
            "podSelector": {}, "policyTypes": ["Egress"]}})),
    ];
    let of = |direction: &str, policies: &[&str], text: &str| SelectingPolicies {
        direction: direction.into(),
        policies: policies.iter().map(ToString::to_string).collect(),
        text: text.into(),
    };
    assert_eq!(
        selecting(&facts, &key("web-1")),
        [
            of("ingress", &["default/some"], "app=client on 80 (policy default/some)"),
            of("egress", &["default/shut"], "nothing"),
        ]
    );
    assert_eq!(
        meaning(&facts, &key("some")),
        ["selects web-1", "ingress: allows app=client on 80 (policy default/some)"]
    );
    assert_eq!(meaning(&facts, &key("shut")), ["selects client, web-1", "egress: allows nothing"]);
}
