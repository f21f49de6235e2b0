//! The parts of the tutorial "StatefulSet Basics" beyond the concept page: deletion without and with the pods,
//! adoption, growth after it, and parallel pods.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use podium::api::Propagation;
use podium::object::owner::controller_of;
use serde_json::json;

use super::super::cluster::{Cluster, NO_NODES};
use super::{
    advance_pod, claims, delete_pod, delete_set, pods, revisions, scale, set_image, start, status, web,
};

#[tokio::test(start_paused = true)]
async fn pods_left_behind_are_adopted_again_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(3, json!({})));
    cluster.run().await;
    delete_set(&cluster, Propagation::Orphan);
    cluster.run().await;
    assert_eq!(pods(&cluster), "0:v1 1:v1 2:v1");
    assert!(cluster.pods().iter().all(|pod| controller_of(&pod.metadata).is_none()));
    delete_pod(&cluster, "web-0");
    cluster.run().await;
    assert_eq!(pods(&cluster), "1:v1 2:v1", "no controller recreates the pod");

    cluster.create::<StatefulSet>(web(2, json!({})));
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), status(&cluster).as_str()), ("0:v1 1:v1", "2 2 2 2 v1>v1"));
    assert_eq!(revisions(&cluster), "1:v1", "its history was adopted, too");
    assert_eq!(cluster.events("SuccessfulDelete"), ["delete Pod web-2 in StatefulSet web successful"]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_recreated_set_may_grow_at_once_and_updates_the_pods_it_adopts_sts_1_sts_2() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(3, json!({})));
    cluster.run().await;
    delete_set(&cluster, Propagation::Orphan);
    cluster.run().await;
    delete_pod(&cluster, "web-1");
    cluster.run().await;
    assert_eq!(pods(&cluster), "0:v1 2:v1");
    let uid = cluster.get::<Pod>("web-2").uid().to_string();
    // The gap is filled first, existing pods stay, and then the set grows.
    cluster.create::<StatefulSet>(web(5, json!({})));
    cluster.settle().await;
    assert_eq!(pods(&cluster), "0:v1 1:v1! 2:v1");
    start(&cluster, "web-1").await;
    assert_eq!(pods(&cluster), "0:v1 1:v1 2:v1 3:v1!");
    cluster.run().await;
    assert_eq!(
        (pods(&cluster).as_str(), status(&cluster).as_str()),
        ("0:v1 1:v1 2:v1 3:v1 4:v1", "5 5 5 5 v1>v1")
    );
    assert_eq!(cluster.get::<Pod>("web-2").uid(), uid);
    assert_eq!(claims(&cluster), "www-web-0 www-web-1 www-web-2 www-web-3 www-web-4");

    // With another template the adopted pods are outdated, and are updated from the highest ordinal down.
    delete_set(&cluster, Propagation::Orphan);
    cluster.run().await;
    cluster.create::<StatefulSet>(web(
        5,
        json!({"template": {"spec": {"containers": [
        {"name": "nginx", "image": "v2"}]}}}),
    ));
    cluster.settle().await;
    assert_eq!(pods(&cluster), "0:v1 1:v1 2:v1 3:v1 4:v1-");
    cluster.run().await;
    assert_eq!(
        (pods(&cluster).as_str(), revisions(&cluster).as_str()),
        ("0:v2 1:v2 2:v2 3:v2 4:v2", "1:v1 2:v2")
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_update_waits_until_each_pod_was_ready_long_enough_sts_1_sts_2() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(2, json!({"minReadySeconds": 30})));
    cluster.run().await;
    cluster.pass(31).await;
    cluster.run().await;
    cluster.pass(31).await;
    set_image(&cluster, "v2");
    cluster.settle().await;
    assert_eq!(pods(&cluster), "0:v1 1:v1-");
    advance_pod(&cluster, "web-1").await;
    start(&cluster, "web-1").await;
    cluster.pass(28).await;
    assert_eq!(pods(&cluster), "0:v1 1:v2", "ready, and not long enough");
    cluster.pass(3).await;
    assert_eq!(pods(&cluster), "0:v1- 1:v2");
    // Scaling down waits, too: the remaining pods must be available first.
    advance_pod(&cluster, "web-0").await;
    start(&cluster, "web-0").await;
    scale(&cluster, 1);
    cluster.pass(20).await;
    assert_eq!(pods(&cluster), "0:v2 1:v2");
    cluster.pass(11).await;
    assert_eq!(pods(&cluster), "0:v2 1:v2-");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn in_parallel_only_scaling_is_parallel_sts_1_sts_2() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(2, json!({"podManagementPolicy": "Parallel"})));
    cluster.run().await;
    // Both new ones are launched at once, without the first being ready.
    scale(&cluster, 4);
    cluster.settle().await;
    assert_eq!(pods(&cluster), "0:v1 1:v1 2:v1! 3:v1!");
    cluster.run().await;
    // An update is still one pod at a time.
    set_image(&cluster, "v2");
    cluster.settle().await;
    assert_eq!(pods(&cluster), "0:v1 1:v1 2:v1 3:v1-");
    advance_pod(&cluster, "web-3").await;
    assert_eq!(pods(&cluster), "0:v1 1:v1 2:v1 3:v2!");
    cluster.run().await;
    assert_eq!(status(&cluster), "4 4 4 4 v2>v2");
    delete_set(&cluster, Propagation::Background);
    cluster.settle().await;
    assert_eq!(pods(&cluster), "0:v2- 1:v2- 2:v2- 3:v2-");
    cluster.run().await;
    assert_eq!(pods(&cluster), "");
    cluster.stop().await;
}
