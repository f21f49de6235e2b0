//! Pods that no kubelet will ever end are removed (GC-2), on virtual time.

use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod, Taint};
use podium::api::DeleteOptions;
use podium::controllers::Settings;
use podium::object::pod::{Phase, condition, phase};
use podium::object::{Key, Kind, SharedObject};
use podium::store::{Visibility, Watcher};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::nodes::node;

/// A pod of this node; of none when that is empty.
fn pod(cluster: &Cluster, name: &str, node: &str) -> SharedObject<Pod> {
    let node = if node.is_empty() { Value::Null } else { json!(node) };
    cluster.create::<Pod>(json!({"metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}}))
}

fn names(cluster: &Cluster) -> String {
    let pods = cluster.pods();
    pods.iter().map(SharedObject::name).collect::<Vec<_>>().join(" ")
}

/// Returns a pod's last observed phase, and the reason of its disruption.
fn last_observed(watcher: &mut Watcher, name: &str) -> (String, Option<String>) {
    let changes = watcher.take().unwrap();
    let last = changes.iter().rfind(|c| c.object.name() == name).unwrap();
    let pod = last.object.get::<Pod>().unwrap();
    (phase(pod).to_string(), condition(pod, "DisruptionTarget").and_then(|c| c.message.clone()))
}

#[tokio::test(start_paused = true)]
async fn the_oldest_of_too_many_pods_that_ended_go_gc_2() {
    let settings = Settings { terminated_pod_threshold: Some(2), ..Settings::default() };
    let cluster = Cluster::start_with(&["nodelifecycle"], settings);
    cluster.create::<Node>(node("n1", ""));
    for name in ["d", "c", "b", "a"] {
        let pod = pod(&cluster, name, "n1");
        cluster.pass(1).await;
        if name != "c" {
            cluster.fail(&pod);
        }
    }
    cluster.settle().await;
    assert_eq!(names(&cluster), "a b c", "c runs, d was the oldest of three that ended");
    cluster.fail(&cluster.get::<Pod>("c"));
    cluster.settle().await;
    assert_eq!(names(&cluster), "a b", "older is who was made earlier, not who ended earlier");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_out_of_service_loses_its_terminating_pods_gc_2() {
    let cluster = Cluster::start(&["nodelifecycle", "taint-eviction-controller"]);
    cluster.create::<Node>(node("n1", ""));
    let mut watcher = cluster.api.watch(Kind::Pod, cluster.api.revision(), Visibility::Applied);
    for name in ["stays", "goes"] {
        let pod = pod(&cluster, name, "n1");
        cluster.set_ready(&pod, true);
    }
    cluster.api.delete(Kind::Pod, &Key::new("default", "goes"), &DeleteOptions::default()).unwrap();
    let change = |edit: &dyn Fn(&mut Node)| {
        cluster
            .api
            .modify::<Node>(&Key::new("", "n1"), |n| {
                edit(n);
                Ok(())
            })
            .unwrap();
    };
    change(&|n| {
        let taint = Taint {
            key: "node.kubernetes.io/out-of-service".into(),
            effect: "NoExecute".into(),
            value: Some("nodeshutdown".into()),
            ..Taint::default()
        };
        n.spec.get_or_insert_default().taints = Some(vec![taint]);
    });
    cluster.pass(1).await;
    assert_eq!(names(&cluster), "goes stays", "a node that is ready ends its pods itself");
    cluster
        .api
        .modify_status::<Node>(&Key::new("", "n1"), |n| {
            let unknown =
                NodeCondition { type_: "Ready".into(), status: "Unknown".into(), ..NodeCondition::default() };
            n.status.as_mut().unwrap().conditions = Some(vec![unknown]);
            Ok(())
        })
        .unwrap();
    cluster.settle().await;
    assert_eq!(names(&cluster), "stays");
    let (phase, why) = last_observed(&mut watcher, "goes");
    assert_eq!((phase.as_str(), why.as_deref()), ("Failed", Some("PodGC: node is out of service")));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_goes_without_ever_having_had_a_node_is_ended_gc_2() {
    let cluster = Cluster::start(&["nodelifecycle"]);
    cluster
        .create::<Pod>(json!({"metadata": {"name": "held", "namespace": "default", "finalizers": ["x/y"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}));
    pod(&cluster, "free", "");
    for name in ["held", "free"] {
        cluster.api.delete(Kind::Pod, &Key::new("default", name), &DeleteOptions::default()).unwrap();
    }
    cluster.settle().await;
    assert_eq!(names(&cluster), "held", "one that nothing holds is gone at once");
    assert_eq!(phase(&cluster.get::<Pod>("held")), Phase::Failed, "no kubelet would ever say so");
    cluster.change::<Pod>("held", |pod| pod.metadata.finalizers = None);
    cluster.settle().await;
    assert_eq!(names(&cluster), "");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_in_time_keeps_its_pods_gc_2_node_5() {
    let cluster = Cluster::start(&["nodelifecycle"]);
    cluster.create::<Node>(node("n1", ""));
    pod(&cluster, "p", "n1");
    pod(&cluster, "lost", "n2");
    cluster.settle().await;
    cluster.api.delete(Kind::Node, &Key::new("", "n1"), &DeleteOptions::default()).unwrap();
    cluster.pass(30).await;
    cluster.create::<Node>(node("n1", ""));
    cluster.pass(60).await;
    assert_eq!(names(&cluster), "p", "n2 has never been");
    cluster.stop().await;
}

/// A StatefulSet's pod was force-deleted and replaced while its process still ran.
#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_node_stay_until_its_processes_are_known_to_be_dead_safe_1() {
    let cluster = Cluster::start(&["nodelifecycle"]);
    cluster.create::<Node>(node("n1", ""));
    pod(&cluster, "p", "n1");
    cluster.api.hold_node("n1");
    cluster.settle().await;
    cluster.api.delete(Kind::Node, &Key::new("", "n1"), &DeleteOptions::default()).unwrap();
    cluster.pass(600).await;
    assert_eq!(names(&cluster), "p");
    cluster.api.release_node("n1");
    cluster.pass(60).await;
    assert_eq!(names(&cluster), "");
    cluster.stop().await;
}
