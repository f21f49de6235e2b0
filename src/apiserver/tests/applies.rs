//! Server-side apply of empty fields: repeating it changes nothing (API-13).

use super::*;

fn pod(spec: &Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (name, value) in spec.as_object().unwrap() {
        pod["spec"][name] = value.clone();
    }
    pod
}

/// As in Kubernetes' types: maps and lists that are omitted when empty are absent once stored; a pointer to a
/// struct, or a struct that is no pointer, stays.
#[tokio::test(start_paused = true)]
async fn applying_empty_values_again_changes_nothing_api_13() {
    let map = |more: Value| {
        let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
        map.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        map
    };
    let meta = |field: &str| map(json!({"metadata": {"name": "x", field: {}}}));
    let container =
        |field: &str, value: Value| pod(&json!({"containers": [{"name": "c", "image": "i", field: value}]}));
    let volume = json!({"volumes": [{"name": "v", "emptyDir": {}}]});
    let selector = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "x"},
        "spec": {"podSelector": {}, "ingress": []}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"},
        "spec": {"ports": [{"port": 80}], "selector": {}, "externalIPs": []}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "data": {}, "stringData": {}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"},
        "spec": {"strategy": {}, "selector": {"matchLabels": {"a": "b"}, "matchExpressions": []},
            "template": {"metadata": {"labels": {"a": "b"}, "annotations": {}},
                "spec": {"nodeSelector": {}, "containers": [{"name": "c", "image": "i", "resources": {"limits": {}}, "env": []}]}}}});
    let policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    let (absent, empty) = (Value::Null, json!({}));
    for (path, config, field, expected) in [
        (MAPS, map(json!({"data": {}})), "/data", &absent),
        (MAPS, map(json!({"data": {}, "binaryData": {}})), "/binaryData", &absent),
        (MAPS, meta("labels"), "/metadata/labels", &absent),
        (MAPS, meta("annotations"), "/metadata/annotations", &absent),
        (
            MAPS,
            map(json!({"metadata": {"name": "x", "finalizers": [], "ownerReferences": []}})),
            "/metadata/finalizers",
            &absent,
        ),
        ("/api/v1/namespaces/default/secrets", secret, "/data", &absent),
        (PODS, pod(&json!({"nodeSelector": {}})), "/spec/nodeSelector", &absent),
        (PODS, pod(&json!({"securityContext": {}})), "/spec/securityContext", &empty),
        (PODS, pod(&json!({"affinity": {}})), "/spec/affinity", &empty),
        (PODS, container("resources", json!({})), "/spec/containers/0/resources", &empty),
        (PODS, container("securityContext", json!({})), "/spec/containers/0/securityContext", &empty),
        (PODS, container("command", json!([])), "/spec/containers/0/command", &absent),
        (PODS, pod(&volume), "/spec/volumes/0/emptyDir", &empty),
        ("/api/v1/namespaces/default/services", service, "/spec/selector", &absent),
        (policies, selector, "/spec/podSelector", &empty),
        (DEPLOYMENTS, deployment, "/spec/template/metadata/annotations", &absent),
    ] {
        let client = Client::new().await;
        let path = format!("{path}/x?fieldManager=m");
        let mut versions = Vec::new();
        for turn in 0..3 {
            let applied = client.patch(&path, APPLY, &config).await;
            assert!([200, 201].contains(&applied.code), "{applied:?}");
            let found = applied.body.pointer(field).cloned().unwrap_or_default();
            assert_eq!(&found, expected, "{field}, {turn}: {}", applied.body);
            versions.push(applied.body["metadata"].clone());
        }
        assert_eq!((&versions[0], &versions[1]), (&versions[1], &versions[2]), "{config}");
    }
}
