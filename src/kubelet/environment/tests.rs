//! Tables of the environment that a container gets.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use serde_json::{Value, json};

use super::*;
use crate::ips::Ips;

fn check(container: &Value, expected: Result<&[(&str, &str)], &str>) {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"app": "web"},
            "annotations": {"note": "a \"b\"\nc\u{7}\u{85}\u{200b}"}},
        "spec": {"containers": [container], "nodeName": "n1", "serviceAccountName": "sa"},
    }))
    .unwrap();
    let container = pod.spec.as_ref().unwrap().containers[0].clone();
    let config: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "config"},
        "data": {"a": "1", "b.c": "2", "bad key=": "x"}}))
    .unwrap();
    let secret: Secret =
        serde_json::from_value(json!({"metadata": {"name": "secret"}, "data": {"pass": "aHVzaA=="}}))
            .unwrap();
    let service: Service = serde_json::from_value(json!({"metadata": {"name": "my-db", "namespace": "ns"},
        "spec": {"clusterIP": "127.32.0.9", "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"},
            {"name": "http", "port": 80, "protocol": "TCP"}]}}))
    .unwrap();
    let (config, secret, service) = (
        SharedObject::from_value(config),
        SharedObject::from_value(secret),
        SharedObject::from_value(service),
    );
    let sources = Sources {
        pod: &pod,
        container: &container,
        pod_ips: Ips { first: Some([127, 1, 0, 5].into()), second: "fd00::5".parse().ok() },
        host_ips: Ips { first: Some([127, 1, 0, 1].into()), second: None },
        low_ports: LowPorts::below(1024),
        allocatable: &ResourceList::from([("cpu".into(), Amount::from_units(4).to_decimal())]),
        config_map: &|name| (name == "config").then(|| config.clone()),
        secret: &|name| (name == "secret").then(|| secret.clone()),
        env_file: Some(&|reference| match reference.volume_name.as_str() {
            "files" => EnvFile::parse("A='1'\nEMPTY=''").value(reference),
            name => Err(EnvError::NoVolume(name.into())),
        }),
        services: &|| vec![service.clone()],
    };
    let found = resolve(&sources);
    match (found, expected) {
        (Ok(found), Ok(expected)) => {
            for (name, value) in expected {
                let got = found.iter().find(|(n, _)| n == name).map_or("(unset)", |(_, v)| v.as_str());
                assert_eq!(got, *value, "{name}");
            }
        }
        (Err(error), Err(expected)) => assert_eq!(error.to_string(), expected),
        (found, expected) => panic!("{found:?} is not {expected:?}"),
    }
}

use object::quantity::Amount;

/// The limit of a container is its own, else its pod's, else the node's allocatable amount; its request is its own.
#[test]
fn limits_fall_back_to_the_pods_and_then_to_the_nodes_pod_13() {
    let allocatable: ResourceList =
        serde_json::from_value(json!({"cpu": "8", "memory": "16Gi", "ephemeral-storage": "100Gi"})).unwrap();
    let value = |spec: &Value, resource: &str| {
        let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
        let field = serde_json::from_value(json!({"resource": resource})).unwrap();
        fields::resource_value(&pod, &pod.spec.as_ref().unwrap().containers[0], &field, &allocatable).unwrap()
    };
    let with = |whole: Value, own: Value| json!({"resources": whole, "containers": [{"name": "c", "resources": own}]});
    let whole = json!({"limits": {"cpu": "4", "memory": "1Ki"}, "requests": {"cpu": "3"}});
    let own = json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}});
    for (spec, resource, expected) in [
        (with(whole.clone(), own.clone()), "limits.cpu", "2"),
        (with(whole.clone(), json!({})), "limits.cpu", "4"),
        (with(whole.clone(), own.clone()), "limits.memory", "1024"),
        (with(json!({}), json!({})), "limits.cpu", "8"),
        (with(json!({"limits": {"memory": "1Ki"}}), json!({})), "limits.cpu", "8"),
        (with(whole.clone(), json!({})), "limits.ephemeral-storage", "107374182400"),
        (with(whole.clone(), own), "requests.cpu", "1"),
        (with(whole, json!({})), "requests.cpu", "0"),
    ] {
        assert_eq!(value(&spec, resource), expected, "{resource} of {spec}");
    }
}

#[test]
fn values_come_from_everywhere_pod_13() {
    let field =
        |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    check(
        &json!({"name": "c",
        "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}},
        "envFrom": [{"configMapRef": {"name": "config"}}, {"prefix": "S_", "secretRef": {"name": "secret"}},
            {"configMapRef": {"name": "none", "optional": true}}],
        "env": [
            {"name": "PLAIN", "value": "x"}, {"name": "CHAIN", "value": "$(PLAIN)-$(S_pass)-$(LATER)"},
            {"name": "LATER", "value": "z"}, {"name": "ESCAPED", "value": "$$(PLAIN)"},
            {"name": "URL", "value": "sql://$(MY_DB_SERVICE_HOST):$(MY_DB_SERVICE_PORT)"},
            {"name": "a", "value": "overridden"},
            field("NAME", "metadata.name"), field("LABEL", "metadata.labels['app']"),
            field("NOTES", "metadata.annotations"), field("IP", "status.podIP"), field("IPS", "status.podIPs"), field("NODE", "spec.nodeName"),
            {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "config", "key": "b.c"}}},
            {"name": "PASS", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "pass"}}},
            {"name": "OPTIONAL", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "no", "optional": true}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}},
            {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu"}}},
            {"name": "MEM", "valueFrom": {"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}}},
            {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "FILED", "valueFrom": {"fileKeyRef": {"volumeName": "files", "path": "e", "key": "A"}}},
            {"name": "NO_KEY", "valueFrom": {"fileKeyRef": {"volumeName": "files", "path": "e", "key": "Z", "optional": true}}},
        ]}),
        Ok(&[
            ("PLAIN", "x"),
            ("CHAIN", "x-hush-$(LATER)"),
            ("ESCAPED", "$(PLAIN)"),
            ("URL", "sql://127.32.0.9:5432"),
            ("a", "overridden"),
            ("b.c", "2"),
            ("bad key=", "(unset)"),
            ("S_pass", "hush"),
            ("NAME", "p"),
            ("LABEL", "web"),
            ("NOTES", "note=\"a \\\"b\\\"\\nc\\a\\u0085\\u200b\""),
            ("IP", "127.1.0.5"),
            ("IPS", "127.1.0.5,fd00::5"),
            ("NODE", "n1"),
            ("KEY", "2"),
            ("PASS", "hush"),
            ("OPTIONAL", "(unset)"),
            ("CPU", "250"),
            ("CPUS", "1"),
            ("MEM", "64"),
            ("LIMIT", "4"),
            ("FILED", "1"),
            ("NO_KEY", "(unset)"),
            ("POD_IP", "127.1.0.5"),
            ("PODIUM_UNPRIVILEGED_PORT_START", "1024"),
            ("MY_DB_PORT_5432_TCP_ADDR", "127.32.0.9"),
            ("MY_DB_SERVICE_PORT_SQL", "5432"),
            ("MY_DB_PORT", "tcp://127.32.0.9:5432"),
            ("MY_DB_SERVICE_PORT_HTTP", "8080"),
            ("MY_DB_PORT_80_TCP", "tcp://127.32.0.9:8080"),
        ]),
    );
}

#[test]
fn missing_sources_are_config_errors_pod_13() {
    let env = |from: Value| json!({"name": "c", "env": [{"name": "X", "valueFrom": from}]});
    for (container, message) in [
        (env(json!({"configMapKeyRef": {"name": "no", "key": "k"}})), "configmap \"no\" not found"),
        (
            env(json!({"configMapKeyRef": {"name": "config", "key": "no"}})),
            "couldn't find key no in ConfigMap ns/config",
        ),
        (
            env(json!({"secretKeyRef": {"name": "secret", "key": "no"}})),
            "couldn't find key no in Secret ns/secret",
        ),
        (
            env(json!({"fileKeyRef": {"volumeName": "none", "path": "e", "key": "A", "optional": true}})),
            "cannot find the volume \"none\" referenced by FileKeyRef",
        ),
        (
            env(json!({"fileKeyRef": {"volumeName": "files", "path": "e", "key": "Z"}})),
            "environment variable key \"Z\" not found in file \"files/e\"",
        ),
        (
            env(json!({"fileKeyRef": {"volumeName": "files", "path": "e", "key": "EMPTY"}})),
            "environment variable key \"EMPTY\" not found in file \"files/e\"",
        ),
        (env(json!({"fieldRef": {"fieldPath": "spec.foo"}})), "unsupported fieldPath: spec.foo"),
        (json!({"name": "c", "envFrom": [{"secretRef": {"name": "no"}}]}), "secret \"no\" not found"),
    ] {
        check(&container, Err(message));
    }
}

/// Returns the environment's outcome for a container of this pod with sources of any size, or the error.
fn outcome(container: &Value, config: &Value, services: usize) -> Result<(), String> {
    let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"containers": [container]}}))
    .unwrap();
    let container = pod.spec.as_ref().unwrap().containers[0].clone();
    let config: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "config"}, "data": config})).unwrap();
    let config = SharedObject::from_value(config);
    let service = |n: usize| {
        let service = json!({"metadata": {"name": format!("service-{n}"), "namespace": "ns"},
            "spec": {"clusterIP": "127.32.0.9", "ports": [{"port": 80}]}});
        SharedObject::from_value(serde_json::from_value::<Service>(service).unwrap())
    };
    let sources = Sources {
        pod: &pod,
        container: &container,
        pod_ips: Ips::default(),
        host_ips: Ips::default(),
        low_ports: LowPorts::below(1024),
        allocatable: &ResourceList::default(),
        config_map: &|_| Some(config.clone()),
        secret: &|_| None,
        env_file: None,
        services: &|| (0..services).map(service).collect(),
    };
    let describe = |error: EnvError| format!("{}: {error}", error.reason());
    let env = resolve(&sources).map_err(describe)?;
    resolve_command(&container, &env).map(drop).map_err(describe)
}

/// Environments with which no program can be started are refused before they are built, from any source (SEC-2).
#[test]
fn an_environment_that_no_program_can_be_started_with_is_an_error_and_never_built() {
    let doubling: Vec<Value> = std::iter::once(json!({"name": "E0", "value": "x".repeat(1000)}))
        .chain((1..=40).map(|n| json!({"name": format!("E{n}"), "value": format!("$(E{0})$(E{0})", n - 1)})))
        .collect();
    let kib = |n: usize| "x".repeat(n << 10);
    let large: serde_json::Map<String, Value> = (0..9).map(|n| (format!("k{n}"), json!(kib(100)))).collect();
    let from = |n: usize| {
        let from: Vec<Value> =
            (0..n).map(|n| json!({"prefix": format!("P{n}_"), "configMapRef": {"name": "config"}})).collect();
        json!({"name": "c", "envFrom": from})
    };
    let one_string =
        "CreateContainerError: variable E8 is 256000 bytes long; a program's string has at most 131071";
    let words = |words: usize| {
        json!({"name": "c", "args": vec!["$(A)$(A)"; words],
        "env": [{"name": "A", "value": kib(60)}]})
    };
    for (case, container, config, services, expected) in [
        ("doubling", json!({"name": "c", "env": doubling}), json!({}), 0, Err(one_string)),
        ("two config maps", from(2), Value::Object(large.clone()), 0, Ok(())),
        ("a hundred config maps", from(100), Value::Object(large), 0, Err("reached at variable P2_k2")),
        ("a large key", from(1), json!({"k": kib(129)}), 0, Err("variable P0_k is 132096 bytes long")),
        ("arguments", words(16), json!({}), 0, Ok(())),
        ("too many arguments", words(17), json!({}), 0, Err("reached at args[16]")),
        (
            "a large argument",
            json!({"name": "c", "command": ["sh", "$(A)$(A)$(A)"], "env": [{"name": "A", "value": kib(60)}]}),
            json!({}),
            0,
            Err("command[1] is 184320 bytes long"),
        ),
        ("services", json!({"name": "c"}), json!({}), 1000, Ok(())),
        ("too many services", json!({"name": "c"}), json!({}), 20_000, Err("enableServiceLinks: false")),
    ] {
        match (outcome(&container, &config, services), expected) {
            (Ok(()), Ok(())) => {}
            (Err(text), Err(part)) => assert!(
                text.starts_with("CreateContainerError: ") && text.contains(part) && text.len() < 300,
                "{case}: {text}"
            ),
            (found, expected) => panic!("{case}: {found:?} is not {expected:?}"),
        }
    }
}

#[test]
fn variables_of_services_follow_enable_service_links_pod_13() {
    let of = |enable_service_links: Option<bool>| {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns"},
            "spec": {"enableServiceLinks": enable_service_links, "containers": [{"name": "c"}]}}))
        .unwrap();
        let service = json!({"metadata": {"name": "db", "namespace": "ns"},
            "spec": {"clusterIP": "127.32.0.9", "ports": [{"port": 80}]}});
        let service = SharedObject::from_value(serde_json::from_value::<Service>(service).unwrap());
        let sources = Sources {
            pod: &pod,
            container: &pod.spec.as_ref().unwrap().containers[0],
            pod_ips: Ips::default(),
            host_ips: Ips::default(),
            low_ports: LowPorts::below(1024),
            allocatable: &ResourceList::default(),
            config_map: &|_| None,
            secret: &|_| None,
            env_file: None,
            services: &|| vec![service.clone()],
        };
        resolve(&sources).unwrap().iter().any(|(name, _)| name == "DB_SERVICE_HOST")
    };
    assert_eq!([None, Some(true), Some(false)].map(of), [true, true, false]);
}
