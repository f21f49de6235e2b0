//! `podium::testing` (API-20), as the author of a controller uses it: through its public API, with its client.

mod builder_options;
mod controller_watch;
mod controllers;
mod disks;
mod extension;
mod faults;
mod fencing;
mod nodes;
mod pods;
mod scenarios;
mod shutdown;
mod snapshots;
mod target_faults;
mod time;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use podium::testing::Cluster;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Creates an object of the namespace `default` from its manifest.
async fn create<T>(cluster: &Cluster, manifest: Value) -> T
where
    T: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope> + k8s_openapi::serde::Serialize,
    T: DeserializeOwned + Clone + std::fmt::Debug,
    T::DynamicType: Default,
{
    let object: T = serde_json::from_value(manifest).unwrap();
    let made = Api::<T>::default_namespaced(cluster.client()).create(&PostParams::default(), &object).await;
    made.unwrap_or_else(|error| panic!("{error}"))
}

fn pods(cluster: &Cluster) -> Api<Pod> {
    Api::default_namespaced(cluster.client())
}

async fn phase(cluster: &Cluster, pod: &str) -> String {
    let pod = pods(cluster).get(pod).await.unwrap();
    pod.status.and_then(|status| status.phase).unwrap_or_default()
}

fn pod(name: &str, restart_policy: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"restartPolicy": restart_policy,
        "containers": [{"name": "c", "image": "app"}]}})
}

fn deployment(name: &str, replicas: i32) -> Value {
    json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "app"}]}}}})
}

/// A definition of gadgets with this maximum for `size`.
fn gadgets(most: i64) -> String {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.made.test"},
        "spec": {"group": "made.test", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object",
                    "properties": {"size": {"type": "integer", "maximum": most}}}}}}}]}})
    .to_string()
}
