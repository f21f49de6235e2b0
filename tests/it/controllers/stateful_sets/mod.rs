//! StatefulSets: the scenarios of the Kubernetes concept and tutorial pages.

mod claims;
mod lifecycle;
mod sequences;
mod storage;
mod tutorial;
mod updates;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use podium::api::{DeleteOptions, Propagation};
use podium::object::pod::{Phase, is_ready, phase};
use podium::object::{Kind, SharedObject};
use serde_json::{Value, json};

use super::cluster::{Cluster, RECREATION_DELAY, key};

/// The tutorial's set: nginx with one claim for each pod. `differences` are merged into the spec.
#[expect(clippy::needless_pass_by_value, reason = "scenarios read better without borrows")]
fn web(replicas: i32, differences: Value) -> Value {
    let mut spec = json!({"replicas": replicas, "serviceName": "nginx",
        "selector": {"matchLabels": {"app": "nginx"}},
        "template": {"metadata": {"labels": {"app": "nginx"}},
            "spec": {"containers": [{"name": "nginx", "image": "v1",
                "volumeMounts": [{"name": "www", "mountPath": "/usr/share/nginx/html"}]}]}},
        "volumeClaimTemplates": [{"metadata": {"name": "www"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}}]});
    json_patch::merge(&mut spec, &differences);
    json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
}

/// Formats the pods by ordinal as `0:v1`; `!` is not ready, `*` failed or succeeded, `-` terminating.
fn pods(cluster: &Cluster) -> String {
    let mut pods = cluster.pods();
    pods.sort_by_key(ordinal);
    pods.iter().map(describe).collect::<Vec<_>>().join(" ")
}

fn describe(pod: &SharedObject<Pod>) -> String {
    let image = pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap();
    let mark = match (pod.metadata.deletion_timestamp.is_some(), phase(pod), is_ready(pod)) {
        (true, ..) => "-",
        (_, Phase::Failed | Phase::Succeeded, _) => "*",
        (_, _, false) => "!",
        _ => "",
    };
    format!("{}:{image}{mark}", ordinal(pod))
}

fn ordinal(pod: &SharedObject<Pod>) -> i32 {
    pod.name().rsplit_once('-').and_then(|(_, number)| number.parse().ok()).unwrap_or(-1)
}

fn claims(cluster: &Cluster) -> String {
    let claims = cluster.api.list_as::<PersistentVolumeClaim>(Some("default"));
    claims.iter().map(SharedObject::name).collect::<Vec<_>>().join(" ")
}

/// Formats the revisions as `revision:image`.
fn revisions(cluster: &Cluster) -> String {
    let mut all = cluster.api.list_as::<ControllerRevision>(Some("default"));
    all.sort_by_key(|r| r.revision);
    let described = all.iter().map(|r| {
        let image = r.data.0["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap();
        format!("{}:{image}", r.revision.unwrap())
    });
    described.collect::<Vec<_>>().join(" ")
}

/// The image of the revision with this name.
fn image_of(cluster: &Cluster, revision: Option<&String>) -> String {
    let revision = cluster.get::<ControllerRevision>(revision.unwrap());
    revision.data.0["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_string()
}

/// Formats the status as `replicas ready current updated` and the images of the current and the update revision.
fn status(cluster: &Cluster) -> String {
    let set = cluster.get::<StatefulSet>("web");
    let status = set.status.clone().unwrap();
    format!(
        "{} {} {} {} {}>{}",
        status.replicas,
        status.ready_replicas.unwrap_or(0),
        status.current_replicas.unwrap_or(0),
        status.updated_replicas.unwrap_or(0),
        image_of(cluster, status.current_revision.as_ref()),
        image_of(cluster, status.update_revision.as_ref())
    )
}

fn scale(cluster: &Cluster, replicas: i32) {
    cluster.change::<StatefulSet>("web", |set| set.spec.replicas = Some(replicas));
}

fn set_image(cluster: &Cluster, image: &str) {
    cluster.change::<StatefulSet>("web", |set| {
        let spec = set.spec.template.spec.as_mut().unwrap();
        spec.containers[0].image = Some(image.into());
    });
}

fn set_partition(cluster: &Cluster, partition: i32) {
    cluster.change::<StatefulSet>("web", |set| {
        let strategy = set.spec.update_strategy.get_or_insert_default();
        strategy.rolling_update.get_or_insert_default().partition = Some(partition);
    });
}

fn delete_pod(cluster: &Cluster, name: &str) {
    cluster.api.delete(Kind::Pod, &key(name), &DeleteOptions::default()).unwrap();
}

fn delete_set(cluster: &Cluster, propagation: Propagation) {
    let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
    cluster.api.delete(Kind::StatefulSet, &key("web"), &options).unwrap();
}

/// The kubelet makes its next step for one pod.
async fn advance_pod(cluster: &Cluster, name: &str) {
    let pod = cluster.get::<Pod>(name);
    assert!(cluster.act_on(&pod), "{name} has nothing to do");
    cluster.settle().await;
    if pod.metadata.deletion_timestamp.is_some() {
        tokio::time::sleep(RECREATION_DELAY).await;
        cluster.settle().await;
    }
}

/// The kubelet binds a pod and makes it ready.
async fn start(cluster: &Cluster, name: &str) {
    advance_pod(cluster, name).await;
    advance_pod(cluster, name).await;
}
