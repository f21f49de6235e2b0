//! Rolling updates, partitions, rollbacks and history.

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use podium::object::Kind;
use serde_json::json;

use super::super::cluster::{Cluster, NO_NODES, key};
use super::{
    advance_pod, delete_pod, image_of, pods, revisions, scale, set_image, set_partition, start, status, web,
};

#[tokio::test(start_paused = true)]
async fn an_update_goes_from_the_highest_ordinal_down_sts_2() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(3, json!({})));
    cluster.run().await;
    set_image(&cluster, "v2");
    cluster.settle().await;
    assert_eq!((pods(&cluster).as_str(), status(&cluster).as_str()), ("0:v1 1:v1 2:v1-", "3 3 2 0 v1>v2"));
    advance_pod(&cluster, "web-2").await;
    assert_eq!(pods(&cluster), "0:v1 1:v1 2:v2!");
    advance_pod(&cluster, "web-2").await;
    assert_eq!(pods(&cluster), "0:v1 1:v1 2:v2!", "it is not ready yet");
    advance_pod(&cluster, "web-2").await;
    assert_eq!((pods(&cluster).as_str(), status(&cluster).as_str()), ("0:v1 1:v1- 2:v2", "3 3 1 1 v1>v2"));
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), status(&cluster).as_str()), ("0:v2 1:v2 2:v2", "3 3 3 3 v2>v2"));
    assert_eq!(revisions(&cluster), "1:v1 2:v2");
    assert_eq!(
        cluster.events("SuccessfulDelete"),
        [2, 1, 0].map(|n| format!("delete Pod web-{n} in StatefulSet web successful"))
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_stages_a_canary_and_phases_sts_2() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(3, json!({})));
    cluster.run().await;
    // A staged update: no pod is updated, and a deleted pod comes back with the old template.
    set_partition(&cluster, 3);
    set_image(&cluster, "v2");
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), status(&cluster).as_str()), ("0:v1 1:v1 2:v1", "3 3 3 0 v1>v2"));
    delete_pod(&cluster, "web-2");
    cluster.run().await;
    assert_eq!(pods(&cluster), "0:v1 1:v1 2:v1");
    // A canary: one pod is updated, and stays so; a deleted pod of a lower ordinal comes back at the old revision.
    set_partition(&cluster, 2);
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), status(&cluster).as_str()), ("0:v1 1:v1 2:v2", "3 3 2 1 v1>v2"));
    delete_pod(&cluster, "web-1");
    delete_pod(&cluster, "web-2");
    cluster.run().await;
    assert_eq!(pods(&cluster), "0:v1 1:v1 2:v2");
    // The update continues in phases.
    set_partition(&cluster, 1);
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), status(&cluster).as_str()), ("0:v1 1:v2 2:v2", "3 3 1 2 v1>v2"));
    set_partition(&cluster, 0);
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), status(&cluster).as_str()), ("0:v2 1:v2 2:v2", "3 3 3 3 v2>v2"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn on_delete_updates_what_is_deleted_sts_2() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(2, json!({"updateStrategy": {"type": "OnDelete"}})));
    cluster.run().await;
    set_image(&cluster, "v2");
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), status(&cluster).as_str()), ("0:v1 1:v1", "2 2 2 0 v1>v2"));
    delete_pod(&cluster, "web-0");
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), status(&cluster).as_str()), ("0:v2 1:v1", "2 2 1 1 v1>v2"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_update_stays_stuck_until_the_broken_pod_is_deleted_sts_2() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(3, json!({})));
    cluster.run().await;
    set_image(&cluster, "bad");
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), status(&cluster).as_str()), ("0:v1 1:v1 2:bad!", "3 2 2 1 v1>bad"));
    // The template is corrected, and the set still waits for the pod that never becomes ready.
    set_image(&cluster, "v1");
    cluster.pass(3600).await;
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), status(&cluster).as_str()), ("0:v1 1:v1 2:bad!", "3 2 2 2 v1>v1"));
    delete_pod(&cluster, "web-2");
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), status(&cluster).as_str()), ("0:v1 1:v1 2:v1", "3 3 3 3 v1>v1"));
    assert_eq!(revisions(&cluster), "2:bad 3:v1", "the old revision under a new number");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn several_pods_may_be_down_at_once_sts_2() {
    let cluster = Cluster::start(NO_NODES);
    let two = json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}});
    cluster.create::<StatefulSet>(web(5, two));
    cluster.run().await;
    set_image(&cluster, "v2");
    cluster.settle().await;
    assert_eq!(pods(&cluster), "0:v1 1:v1 2:v1 3:v1- 4:v1-");
    advance_pod(&cluster, "web-4").await;
    assert_eq!(pods(&cluster), "0:v1 1:v1 2:v1 3:v1-", "in order, web-3 comes before web-4");
    advance_pod(&cluster, "web-3").await;
    start(&cluster, "web-3").await;
    assert_eq!(pods(&cluster), "0:v1 1:v1 2:v1 3:v2 4:v2!");
    cluster.run().await;
    assert_eq!(
        (pods(&cluster).as_str(), status(&cluster).as_str()),
        ("0:v2 1:v2 2:v2 3:v2 4:v2", "5 5 5 5 v2>v2")
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_parallel_set_gets_over_a_broken_update_by_itself_sts_2() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(3, json!({"podManagementPolicy": "Parallel"})));
    cluster.run().await;
    set_image(&cluster, "bad");
    cluster.run().await;
    assert_eq!(pods(&cluster), "0:v1 1:v1 2:bad!", "one may be down, no more");
    set_image(&cluster, "v3");
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), status(&cluster).as_str()), ("0:v3 1:v3 2:v3", "3 3 3 3 v3>v3"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn scaling_comes_before_updating_sts_2() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(3, json!({})));
    cluster.run().await;
    cluster.change::<StatefulSet>("web", |set| {
        set.spec.replicas = Some(2);
        set.spec.template.spec.as_mut().unwrap().containers[0].image = Some("v2".into());
    });
    cluster.settle().await;
    assert_eq!(pods(&cluster), "0:v1 1:v1 2:v1-");
    advance_pod(&cluster, "web-2").await;
    assert_eq!(pods(&cluster), "0:v1 1:v1-");
    cluster.run().await;
    scale(&cluster, 3);
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), status(&cluster).as_str()), ("0:v2 1:v2 2:v2", "3 3 3 3 v2>v2"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unused_revisions_are_removed_beyond_the_history_limit_sts_2() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(2, json!({"revisionHistoryLimit": 2})));
    cluster.run().await;
    for image in ["v2", "v3", "v4", "v5"] {
        set_image(&cluster, image);
        cluster.run().await;
    }
    assert_eq!(revisions(&cluster), "3:v3 4:v4 5:v5");
    // Pods of an old revision retain it.
    set_partition(&cluster, 2);
    for image in ["v6", "v7", "v8", "v9"] {
        set_image(&cluster, image);
        cluster.run().await;
    }
    assert_eq!((pods(&cluster).as_str(), revisions(&cluster).as_str()), ("0:v5 1:v5", "5:v5 7:v7 8:v8 9:v9"));

    // kubectl rollout undo: the template of the previous revision comes back, under a new number.
    set_partition(&cluster, 0);
    set_image(&cluster, "v8");
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), status(&cluster).as_str()), ("0:v8 1:v8", "2 2 2 2 v8>v8"));
    assert!(revisions(&cluster).ends_with("9:v9 10:v8"), "{}", revisions(&cluster));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_revision_tells_why_and_is_made_again_when_it_is_lost_sts_2() {
    let cluster = Cluster::start(NO_NODES);
    let mut set = web(1, json!({}));
    set["metadata"]["annotations"] = json!({"kubernetes.io/change-cause": "first"});
    cluster.create::<StatefulSet>(set);
    cluster.run().await;
    let name = cluster.get::<StatefulSet>("web").status.clone().unwrap().update_revision.unwrap();
    let revision = cluster.get::<ControllerRevision>(&name);
    assert_eq!(revision.metadata.annotations.as_ref().unwrap()["kubernetes.io/change-cause"], "first");
    let hash = &revision.metadata.labels.as_ref().unwrap()["controller.kubernetes.io/hash"];
    assert_eq!(name, format!("web-{hash}"));
    assert_eq!(revision.metadata.labels.as_ref().unwrap()["app"], "nginx");

    cluster
        .api
        .delete(Kind::ControllerRevision, &key(&name), &podium::api::DeleteOptions::default())
        .unwrap();
    cluster.run().await;
    assert_eq!(image_of(&cluster, Some(&name)), "v1", "the name follows from what it holds");
    assert_eq!(pods(&cluster), "0:v1");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_name_taken_by_another_template_is_counted_and_the_next_one_used_sts_2() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(1, json!({})));
    cluster.run().await;
    let name = cluster.get::<StatefulSet>("web").status.clone().unwrap().update_revision.unwrap();
    super::delete_set(&cluster, podium::api::Propagation::Background);
    cluster.run().await;
    cluster.create::<ControllerRevision>(json!({"metadata": {"name": name, "namespace": "default"},
        "revision": 1, "data": {"something": "else"}}));
    cluster.create::<StatefulSet>(web(1, json!({})));
    cluster.run().await;
    let status = cluster.get::<StatefulSet>("web").status.clone().unwrap();
    assert_eq!(status.collision_count, Some(1));
    assert_ne!(status.update_revision.as_ref(), Some(&name));
    let pod = cluster.get::<Pod>("web-0");
    assert_eq!(
        pod.metadata.labels.as_ref().unwrap().get("controller-revision-hash"),
        status.update_revision.as_ref()
    );
    cluster.stop().await;
}
