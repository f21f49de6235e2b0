//! Objects that are not stored, in the forms that clients accept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use api::usage::{NodeUsage, ResourceUsage};
use api::verdicts::{SchedulingVerdict, SchedulingVerdicts};

/// Lists, and an object of each with its kind.
const LISTS: [(&str, &str, &str); 3] = [
    ("/api/v1/componentstatuses", "controller-manager", "ComponentStatus"),
    ("/apis/metrics.k8s.io/v1beta1/nodes", "n", "NodeMetrics"),
    ("/apis/podium.dev/v1alpha1/namespaces/default/schedulingverdicts", "p", "SchedulingVerdict"),
];

/// A scheduler that found no node for any pod.
struct FullScheduler;

impl SchedulingVerdicts for FullScheduler {
    fn verdict(&self, _: &str) -> Option<SchedulingVerdict> {
        Some(SchedulingVerdict {
            attempted_at: "2026-11-21T00:00:00Z".parse().unwrap(),
            message: "0/1 nodes are available".into(),
            hints: Vec::new(),
            filters: Vec::new(),
            scored_by: Vec::new(),
            nodes: Vec::new(),
        })
    }
}

/// A client of a cluster with a measured node, a pending pod and a workload.
async fn client() -> Client {
    let client = Client::new().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (path, object) in
        [("/api/v1/nodes", json!({"metadata": {"name": "n"}})), (PODS, pod), (DEPLOYMENTS, deployment("web"))]
    {
        assert_eq!(client.post(path, &object).await.code, 201, "{path}");
    }
    let api = client.server.api();
    api.set_scheduling_verdicts(Arc::new(FullScheduler));
    let now = api.server_clock().now();
    let usage = NodeUsage {
        at: now,
        reported_at: now,
        window: Duration::from_secs(15),
        total: ResourceUsage::default(),
        pods: BTreeMap::new(),
        pod_cpu_times: BTreeMap::new(),
        volumes: BTreeMap::new(),
    };
    api.set_node_usage("n", Some(usage));
    client
}

/// Regression: verdicts were always whole, which client-go's metadata client cannot read.
#[tokio::test(start_paused = true)]
async fn objects_that_are_not_stored_are_shown_as_metadata_api_2() {
    let client = client().await;
    let accept = |kind: &str| format!("application/json;as={kind};v=v1;g=meta.k8s.io");
    for (path, name, kind) in LISTS {
        let list = client.document(path, &accept("PartialObjectMetadataList")).await;
        let one = client.document(&format!("{path}/{name}"), &accept("PartialObjectMetadata")).await;
        assert_eq!(list["kind"], "PartialObjectMetadataList", "{kind}");
        for object in [&list["items"][0], &one] {
            assert_eq!(object["kind"], "PartialObjectMetadata", "{kind}");
            assert_eq!(object["apiVersion"], "meta.k8s.io/v1", "{kind}");
            assert_eq!(object["metadata"]["name"], name, "{kind}");
            let fields: Vec<&String> = object.as_object().unwrap().keys().collect();
            assert_eq!(fields, ["apiVersion", "kind", "metadata"], "{kind}");
        }
    }
}

/// Regression: rows always had metadata.
#[tokio::test(start_paused = true)]
async fn rows_of_objects_that_are_not_stored_include_as_much_as_the_query_demands_api_6() {
    let client = client().await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let scale = format!("{DEPLOYMENTS}/web/scale");
    for (path, name, kind) in LISTS.into_iter().chain([(scale.as_str(), "web", "Scale")]) {
        for (include, object_kind) in [
            ("", json!("PartialObjectMetadata")),
            ("?includeObject=Metadata", json!("PartialObjectMetadata")),
            ("?includeObject=Object", json!(kind)),
            ("?includeObject=None", Value::Null),
        ] {
            let table = client.document(&format!("{path}{include}"), accept).await;
            assert_eq!(table["kind"], "Table", "{kind}");
            let row = &table["rows"][0];
            assert_eq!(
                (&row["cells"][0], &row["object"]["kind"]),
                (&json!(name), &object_kind),
                "{path}{include}"
            );
        }
    }
}
