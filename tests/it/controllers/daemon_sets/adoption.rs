//! Existing pods: left behind by another set, created by hand, or a kubelet's own.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use podium::api::{DeleteOptions, Propagation};
use podium::object::Kind;
use podium::object::owner::controller_of;
use serde_json::{Value, json};

use super::super::cluster::{Cluster, NO_NODES, key};
use super::{counts, daemon_set, node, numbers, pods, revisions, set_image, started};

#[tokio::test(start_paused = true)]
async fn orphaned_daemons_and_revisions_are_adopted_ds_1() {
    let cluster = started(&["n1", "n2"], daemon_set("agent")).await;
    let uids = || {
        let mut uids: Vec<String> = cluster.pods().iter().map(|p| p.uid().to_string()).collect();
        uids.sort();
        uids
    };
    let before = uids();
    let orphan = DeleteOptions { propagation: Some(Propagation::Orphan), ..DeleteOptions::default() };
    cluster.api.delete(Kind::DaemonSet, &key("agent"), &orphan).unwrap();
    cluster.run().await;
    assert!(cluster.api.get(Kind::DaemonSet, &key("agent")).is_err());
    assert_eq!((uids(), numbers(&cluster)), (before.clone(), vec![1]));
    assert!(cluster.pods().iter().all(|p| p.metadata.owner_references.is_none()));

    cluster.create::<DaemonSet>(daemon_set("agent"));
    cluster.run().await;
    assert_eq!((uids(), numbers(&cluster)), (before, vec![1]), "the same pods of the same revision");
    let set = cluster.get::<DaemonSet>("agent");
    for pod in cluster.pods() {
        assert_eq!(pod.metadata.owner_references.as_ref().unwrap()[0].uid, set.uid());
    }
    assert_eq!(counts(&cluster), [2, 2, 2, 2, 2, 0]);

    // A pod with labels that no longer match the set's selector is released, and replaced.
    let released = cluster.pods().remove(0);
    cluster.change::<Pod>(released.name(), |pod| {
        pod.metadata.labels.as_mut().unwrap().insert("app".into(), "other".into());
    });
    cluster.run().await;
    assert!(cluster.get::<Pod>(released.name()).metadata.owner_references.is_none());
    assert_eq!(cluster.pods().len(), 3);

    cluster.api.delete(Kind::DaemonSet, &key("agent"), &DeleteOptions::default()).unwrap();
    cluster.run().await;
    assert_eq!(cluster.pods().len(), 1, "the others went with it");
    assert!(revisions(&cluster).is_empty());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn adopted_pods_are_updated_according_to_the_update_strategy_ds_1() {
    for (strategy, expected) in [("RollingUpdate", "n1=two n2=two"), ("OnDelete", "n1=one n2=one")] {
        let cluster = started(&["n1", "n2"], daemon_set("agent")).await;
        let orphan = DeleteOptions { propagation: Some(Propagation::Orphan), ..DeleteOptions::default() };
        cluster.api.delete(Kind::DaemonSet, &key("agent"), &orphan).unwrap();
        cluster.run().await;
        let mut next = daemon_set("agent");
        next["spec"]["updateStrategy"] = json!({"type": strategy});
        next["spec"]["template"]["spec"]["containers"][0]["image"] = json!("two");
        cluster.create::<DaemonSet>(next);
        cluster.run().await;
        assert_eq!((pods(&cluster).as_str(), numbers(&cluster)), (expected, vec![1, 2]), "{strategy}");
        cluster.stop().await;
    }
}

/// A pod with the set's labels, bound to this node.
fn bare(name: &str, node: &str, owners: &Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": "agent"}, "ownerReferences": owners},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "bare"}]}})
}

#[tokio::test(start_paused = true)]
async fn a_bare_pod_takes_its_node_s_place_until_an_update_replaces_it_ds_1() {
    let cluster = Cluster::start(NO_NODES);
    for name in ["n1", "n2"] {
        cluster.create::<Node>(node(name, json!({})));
    }
    cluster.create::<Pod>(bare("mine", "n1", &json!([])));
    cluster.run().await;
    let mut set = daemon_set("agent");
    set["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    let set = cluster.create::<DaemonSet>(set);
    cluster.run().await;
    assert_eq!(pods(&cluster), "n1=bare n2=one", "a pod that is there is as good as a new one");
    assert_eq!(controller_of(&cluster.get::<Pod>("mine").metadata).unwrap().uid, set.uid());
    assert_eq!(counts(&cluster), [2, 2, 2, 1, 2, 0], "but it is not of the template");
    // A second pod on the same node is surplus: the younger one is deleted.
    cluster.pass(60).await;
    cluster.create::<Pod>(bare("more", "n2", &json!([])));
    cluster.run().await;
    assert_eq!(pods(&cluster), "n1=bare n2=one");
    cluster.change::<DaemonSet>("agent", |set| {
        set.spec.update_strategy.as_mut().unwrap().type_ = Some("RollingUpdate".into());
    });
    cluster.run().await;
    assert_eq!(pods(&cluster), "n1=one n2=one");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_s_static_pod_is_left_alone_ds_1() {
    let cluster = Cluster::start(NO_NODES);
    let n1 = cluster.create::<Node>(node("n1", json!({})));
    let owner =
        json!([{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": n1.uid(), "controller": true}]);
    let mut mirror = bare("static-n1", "n1", &owner);
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    cluster.create::<Pod>(mirror);
    cluster.create::<DaemonSet>(daemon_set("agent"));
    cluster.run().await;
    assert_eq!(
        pods(&cluster),
        "n1=bare n1=one",
        "it belongs to its node, and the node gets a daemon besides"
    );
    assert_eq!(counts(&cluster), [1, 1, 1, 1, 1, 0]);
    set_image(&cluster, "two");
    cluster.run().await;
    assert_eq!(pods(&cluster), "n1=bare n1=two");
    cluster.stop().await;
}
