//! Go clients write structs that are not pointers even if they are empty.

use serde_json::{Value, json};

use super::{Client, DEPLOYMENTS, PODS};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const DAEMONS: &str = "/apis/apps/v1/namespaces/default/daemonsets";

/// Adds the zero values that a Go client writes to a manifest.
fn as_go_writes(manifest: &Value, zeros: &Value) -> Value {
    let mut written = manifest.clone();
    json_patch::merge(&mut written, zeros);
    written["metadata"]["creationTimestamp"] = Value::Null;
    written
}

fn container(zeros: bool) -> Value {
    let mut container = json!({"name": "c", "image": "x:1"});
    if zeros {
        container["resources"] = json!({});
    }
    container
}

fn workload(zeros: bool, strategy: &str) -> Value {
    let mut workload = json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container(zeros)]}}}});
    if zeros {
        workload["metadata"]["creationTimestamp"] = Value::Null;
        workload["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
        workload["spec"][strategy] = json!({});
        workload["status"] = json!({"replicas": 0, "currentNumberScheduled": 0, "numberMisscheduled": 0,
            "desiredNumberScheduled": 0, "numberReady": 0, "availableReplicas": 0});
    }
    workload
}

fn with_service(mut set: Value) -> Value {
    set["spec"]["serviceName"] = "a".into();
    set
}

/// The same objects from a manifest and from a Go client: a write without new content changes nothing.
#[tokio::test(start_paused = true)]
async fn zero_valued_structs_of_go_clients_change_nothing_api_13() {
    let client = Client::new().await;
    let pod = json!({"metadata": {"name": "a"}, "spec": {"automountServiceAccountToken": false, "containers": [container(false)]}});
    let pod_of_go = json!({"metadata": {"name": "a", "creationTimestamp": null},
        "spec": {"automountServiceAccountToken": false, "containers": [container(true)]}, "status": {}});
    let service = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}});
    let service_of_go = as_go_writes(&service, &json!({"status": {"loadBalancer": {}}}));
    let service_of_go = {
        let mut service = service_of_go;
        service["spec"]["ports"][0]["targetPort"] = 0.into();
        service
    };
    let claim = json!({"metadata": {"name": "a"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let claim_of_go = as_go_writes(&claim, &json!({"status": {}}));
    for (path, manifest, of_go) in [
        (PODS, pod, pod_of_go),
        (SERVICES, service, service_of_go),
        (CLAIMS, claim, claim_of_go),
        (DEPLOYMENTS, workload(false, ""), workload(true, "strategy")),
        (DAEMONS, workload(false, ""), workload(true, "updateStrategy")),
        (SETS, with_service(workload(false, "")), with_service(workload(true, "updateStrategy"))),
    ] {
        let made = client.post(path, &manifest).await;
        assert_eq!(made.code, 201, "{path}: {made:?}");
        // Updates of a pod have to repeat the fields that admission filled in.
        if path != PODS {
            let written = client.put(&format!("{path}/a"), &of_go).await;
            assert_eq!(written.code, 200, "{path}: {written:?}");
            assert_eq!(written.body["spec"], made.body["spec"], "{path}");
            assert_eq!(written.body["metadata"]["generation"], made.body["metadata"]["generation"], "{path}");
        }
        let mut second = of_go;
        second["metadata"]["name"] = "b".into();
        let made_by_go = client.post(path, &second).await;
        assert_eq!(made_by_go.code, 201, "{path}: {made_by_go:?}");
        let mut spec = made_by_go.body["spec"].clone();
        for assigned in ["clusterIP", "clusterIPs"] {
            if let Some(address) = made.body["spec"].get(assigned) {
                spec[assigned] = address.clone();
            }
        }
        assert_eq!(spec, made.body["spec"], "{path}");
    }
}
