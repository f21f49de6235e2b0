//! Defaults of manifests.

use serde_json::{Value, json};

use super::*;

/// Defaults a manifest (given without its apiVersion) and returns it as JSON.
fn defaulted(kind: Kind, value: Value) -> Value {
    let mut object = Object::from_value(kind, value).unwrap();
    apply_defaults(&mut object);
    let once = object.to_value();
    apply_defaults(&mut object);
    assert_eq!(object.to_value(), once, "defaulting twice changes nothing");
    once
}

#[test]
fn a_pod_gets_kubernetes_defaults_api_8() {
    let pod = defaulted(
        Kind::Pod,
        json!({"spec": {
            "hostNetwork": true,
            "containers": [{
                "name": "a", "image": "nginx",
                "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
                "livenessProbe": {"httpGet": {"port": 80}},
                "lifecycle": {"preStop": {"httpGet": {"port": "web"}}},
                "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
            }],
            "initContainers": [{"name": "i", "image": "reg:5000/x/y:1.2"}],
            "volumes": [
                {"name": "v"},
                {"name": "c", "configMap": {"name": "x"}},
                {"name": "h", "hostPath": {"path": "/x"}},
                {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
            ]
        }}),
    );
    let spec = &pod["spec"];
    for (path, expected) in [
        ("/restartPolicy", json!("Always")),
        ("/dnsPolicy", json!("ClusterFirst")),
        ("/schedulerName", json!("default-scheduler")),
        ("/terminationGracePeriodSeconds", json!(30)),
        ("/securityContext", json!({})),
        ("/enableServiceLinks", json!(true)),
        ("/containers/0/imagePullPolicy", json!("Always")),
        ("/containers/0/terminationMessagePath", json!("/dev/termination-log")),
        ("/containers/0/terminationMessagePolicy", json!("File")),
        ("/containers/0/ports/0", json!({"containerPort": 80, "hostPort": 80, "protocol": "TCP"})),
        ("/containers/0/resources/requests", json!({"cpu": "500m", "memory": "1Gi"})),
        (
            "/containers/0/livenessProbe",
            json!({"failureThreshold": 3, "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
                "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1}),
        ),
        ("/containers/0/lifecycle/preStop/httpGet", json!({"path": "/", "port": "web", "scheme": "HTTP"})),
        ("/containers/0/env/0/valueFrom/fieldRef", json!({"apiVersion": "v1", "fieldPath": "status.podIP"})),
        ("/initContainers/0/imagePullPolicy", json!("IfNotPresent")),
        ("/initContainers/0/resources", json!({})),
        ("/volumes/0/emptyDir", json!({})),
        ("/volumes/1/configMap/defaultMode", json!(420)),
        ("/volumes/2/hostPath/type", json!("")),
        ("/volumes/3/projected/defaultMode", json!(420)),
        ("/volumes/3/projected/sources/0/serviceAccountToken/expirationSeconds", json!(3600)),
    ] {
        assert_eq!(spec.pointer(path), Some(&expected), "{path}");
    }
}

#[test]
fn workloads_default_their_strategy_and_template_but_not_what_only_pods_have_api_8() {
    let spec = |kind| {
        defaulted(
            kind,
            json!({"spec": {"selector": {}, "template": {"spec": {"containers": [
                {"name": "a", "image": "b:1", "resources": {"limits": {"cpu": "1"}}}]}}}}),
        )["spec"]
            .clone()
    };
    let deployment = spec(Kind::Deployment);
    assert_eq!(deployment["replicas"], 1);
    assert_eq!(deployment["revisionHistoryLimit"], 10);
    assert_eq!(deployment["progressDeadlineSeconds"], 600);
    assert_eq!(
        deployment["strategy"],
        json!({"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}, "type": "RollingUpdate"})
    );
    let replica_set = spec(Kind::ReplicaSet);
    assert_eq!(replica_set["replicas"], 1);
    for template in [&deployment["template"]["spec"], &replica_set["template"]["spec"]] {
        assert_eq!(template["restartPolicy"], "Always");
        assert_eq!(template["enableServiceLinks"], Value::Null);
        assert_eq!(template["containers"][0]["resources"], json!({"limits": {"cpu": "1"}}));
    }
    let recreate = defaulted(
        Kind::Deployment,
        json!({"spec": {"selector": {}, "template": {}, "strategy": {"type": "Recreate"}}}),
    );
    assert_eq!(recreate["spec"]["strategy"], json!({"type": "Recreate"}));
}

#[test]
fn services_default_their_ports_and_policies_api_8() {
    let service = defaulted(
        Kind::Service,
        json!({"spec": {"type": "NodePort", "sessionAffinity": "ClientIP",
            "ports": [{"port": 80}, {"name": "b", "port": 81, "targetPort": "web", "protocol": "UDP"}]}}),
    );
    assert_eq!(
        service["spec"],
        json!({
            "type": "NodePort", "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
            "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster",
            "ports": [
                {"port": 80, "protocol": "TCP", "targetPort": 80},
                {"name": "b", "port": 81, "protocol": "UDP", "targetPort": "web"}
            ]
        })
    );
    let external = defaulted(Kind::Service, json!({"spec": {"type": "ExternalName", "externalName": "a"}}));
    assert_eq!(
        external["spec"],
        json!({"type": "ExternalName", "externalName": "a", "sessionAffinity": "None"})
    );
}

#[test]
fn the_small_kinds_get_their_defaults_api_8() {
    let namespace = defaulted(Kind::Namespace, json!({"metadata": {"name": "team"}}));
    assert_eq!(namespace["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "team"}));
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(namespace["status"]["phase"], "Active");
    let secret =
        defaulted(Kind::Secret, json!({"data": {"a": "MQ==", "b": "MQ=="}, "stringData": {"a": "2"}}));
    assert_eq!((&secret["type"], &secret["data"]), (&json!("Opaque"), &json!({"a": "Mg==", "b": "MQ=="})));
    assert_eq!(secret["stringData"], Value::Null);
    let class = defaulted(Kind::PriorityClass, json!({"value": 5}));
    assert_eq!(class["preemptionPolicy"], "PreemptLowerPriority");
    let node = defaulted(Kind::Node, json!({"status": {"capacity": {"cpu": "4"}}}));
    assert_eq!(node["status"]["allocatable"], json!({"cpu": "4"}));
    let slice = defaulted(Kind::EndpointSlice, json!({"ports": [{"port": 80}]}));
    assert_eq!(slice["ports"], json!([{"name": "", "port": 80, "protocol": "TCP"}]));
}
