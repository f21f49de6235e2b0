//! Creating, scaling, losing and orphaning pods.

use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use podium::api::DeleteOptions;
use podium::object::owner::controller_of;
use podium::object::{Key, Kind};
use serde_json::json;

use super::super::cluster::{Cluster, NO_NODES, RECREATION_DELAY, key};
use super::super::nodes::node;
use super::{advance_pod, claims, delete_pod, pods, scale, start, status, web};

#[tokio::test(start_paused = true)]
async fn pods_are_made_one_after_the_other_with_an_identity_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(2, json!({})));
    cluster.settle().await;
    assert_eq!((pods(&cluster).as_str(), claims(&cluster).as_str()), ("0:v1!", "www-web-0"));
    advance_pod(&cluster, "web-0").await;
    assert_eq!(pods(&cluster), "0:v1!", "bound is not running");
    advance_pod(&cluster, "web-0").await;
    assert_eq!((pods(&cluster).as_str(), claims(&cluster).as_str()), ("0:v1 1:v1!", "www-web-0 www-web-1"));
    start(&cluster, "web-1").await;
    assert_eq!((pods(&cluster).as_str(), status(&cluster).as_str()), ("0:v1 1:v1", "2 2 2 2 v1>v1"));

    let pod = cluster.get::<Pod>("web-1");
    let labels = pod.metadata.labels.clone().unwrap();
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "web-1");
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "1");
    let set = cluster.get::<StatefulSet>("web");
    assert_eq!(
        Some(&labels["controller-revision-hash"]),
        set.status.as_ref().unwrap().update_revision.as_ref()
    );
    assert_eq!(controller_of(&pod.metadata).unwrap().uid, set.uid());
    let spec = pod.spec.clone().unwrap();
    assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("web-1"), Some("nginx")));
    let claim = spec.volumes.unwrap()[0].persistent_volume_claim.clone().unwrap();
    assert_eq!(claim.claim_name, "www-web-1");
    assert_eq!(
        cluster.events("SuccessfulCreate"),
        [
            "create Claim www-web-0 Pod web-0 in StatefulSet web success",
            "create Pod web-0 in StatefulSet web successful",
            "create Claim www-web-1 Pod web-1 in StatefulSet web success",
            "create Pod web-1 in StatefulSet web successful",
        ]
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_set_grows_in_order_and_shrinks_in_the_opposite_one_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(2, json!({})));
    cluster.run().await;
    scale(&cluster, 4);
    cluster.settle().await;
    assert_eq!(pods(&cluster), "0:v1 1:v1 2:v1!");
    start(&cluster, "web-2").await;
    assert_eq!(pods(&cluster), "0:v1 1:v1 2:v1 3:v1!");
    cluster.run().await;
    assert_eq!(pods(&cluster), "0:v1 1:v1 2:v1 3:v1");

    scale(&cluster, 1);
    for expected in ["0:v1 1:v1 2:v1 3:v1-", "0:v1 1:v1 2:v1-", "0:v1 1:v1-"] {
        cluster.settle().await;
        assert_eq!(pods(&cluster), expected);
        let last = cluster.pods().last().unwrap().clone();
        assert!(cluster.act_on(&last));
    }
    cluster.run().await;
    assert_eq!(pods(&cluster), "0:v1");
    assert_eq!(claims(&cluster), "www-web-0 www-web-1 www-web-2 www-web-3", "claims outlive their pods");
    assert_eq!(
        cluster.events("SuccessfulDelete"),
        [3, 2, 1].map(|n| format!("delete Pod web-{n} in StatefulSet web successful"))
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn shrinking_waits_for_those_that_stay_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(3, json!({})));
    cluster.run().await;
    cluster.set_ready(&cluster.get::<Pod>("web-0"), false);
    scale(&cluster, 1);
    cluster.settle().await;
    assert_eq!(pods(&cluster), "0:v1! 1:v1 2:v1", "web-2 stays until web-0 is ready again");
    cluster.set_ready(&cluster.get::<Pod>("web-0"), true);
    cluster.settle().await;
    assert_eq!(pods(&cluster), "0:v1 1:v1 2:v1-");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn in_parallel_pods_come_and_go_at_once_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(3, json!({"podManagementPolicy": "Parallel"})));
    cluster.settle().await;
    assert_eq!(pods(&cluster), "0:v1! 1:v1! 2:v1!");
    cluster.run().await;
    scale(&cluster, 0);
    cluster.settle().await;
    assert_eq!(pods(&cluster), "0:v1- 1:v1- 2:v1-");
    cluster.run().await;
    assert_eq!(status(&cluster), "0 0 0 0 v1>v1");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_counts_when_it_was_ready_long_enough_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(2, json!({"minReadySeconds": 10})));
    cluster.settle().await;
    start(&cluster, "web-0").await;
    assert_eq!(pods(&cluster), "0:v1", "ready, but not for ten seconds");
    let available =
        |cluster: &Cluster| cluster.get::<StatefulSet>("web").status.clone().unwrap().available_replicas;
    assert_eq!(available(&cluster), Some(0));
    cluster.pass(9).await;
    assert_eq!(pods(&cluster), "0:v1");
    cluster.pass(1).await;
    assert_eq!((pods(&cluster).as_str(), available(&cluster)), ("0:v1 1:v1!", Some(1)));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ordinals_may_start_anywhere_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(2, json!({"ordinals": {"start": 3}})));
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), claims(&cluster).as_str()), ("3:v1 4:v1", "www-web-3 www-web-4"));
    cluster.change::<StatefulSet>("web", |set| set.spec.ordinals.as_mut().unwrap().start = Some(4));
    cluster.run().await;
    assert_eq!(pods(&cluster), "4:v1 5:v1");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_pod_comes_back_only_when_the_old_one_is_gone_sts_3() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(2, json!({})));
    cluster.run().await;
    let old = cluster.get::<Pod>("web-0").uid().to_string();
    delete_pod(&cluster, "web-0");
    // Its node does not answer: the pod may still run.
    cluster.pass(3600).await;
    assert_eq!(pods(&cluster), "0:v1- 1:v1");
    assert_eq!(cluster.get::<Pod>("web-0").uid(), old);
    // The user forces the deletion, because the node is known to be dead.
    let force = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    cluster.api.delete(Kind::Pod, &key("web-0"), &force).unwrap();
    cluster.settle().await;
    // `kubectl delete` lists pods of that name now, and would wait for a new one.
    assert_eq!(pods(&cluster), "1:v1");
    tokio::time::sleep(RECREATION_DELAY).await;
    cluster.settle().await;
    assert_eq!(pods(&cluster), "0:v1! 1:v1");
    let new = cluster.get::<Pod>("web-0");
    assert_ne!(new.uid(), old);
    let claim = new.spec.clone().unwrap().volumes.unwrap()[0].persistent_volume_claim.clone().unwrap();
    assert_eq!(claim.claim_name, "www-web-0", "the new one has the old one's storage");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_ended_are_replaced_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(2, json!({})));
    cluster.run().await;
    let old = cluster.get::<Pod>("web-1").uid().to_string();
    cluster.fail(&cluster.get::<Pod>("web-1"));
    cluster.settle().await;
    assert_eq!(pods(&cluster), "0:v1 1:v1!");
    assert_ne!(cluster.get::<Pod>("web-1").uid(), old);
    cluster.run().await;
    assert_eq!(pods(&cluster), "0:v1 1:v1");
    assert_eq!(cluster.events("SuccessfulDelete"), ["delete Pod web-1 in StatefulSet web successful"]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_keeps_failing_is_replaced_ever_more_slowly_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(1, json!({})));
    cluster.settle().await;
    let mut waits = Vec::new();
    for _ in 0..5 {
        start(&cluster, "web-0").await;
        let old = cluster.get::<Pod>("web-0");
        cluster.fail(&old);
        cluster.settle().await;
        let mut waited = 0;
        while cluster.get::<Pod>("web-0").uid() == old.uid() {
            assert_eq!(pods(&cluster), "0:v1*");
            cluster.pass(1).await;
            waited += 1;
        }
        waits.push(waited);
    }
    assert!(waits[0] == 0 && waits.windows(2).all(|pair| pair[0] < pair[1]), "{waits:?}");
    cluster.stop().await;
}

/// Conformance, "should recreate evicted statefulset": a node refuses a pod for a host port, until the port is free.
#[tokio::test(start_paused = true)]
async fn a_pod_that_its_node_refuses_is_recreated_until_the_node_takes_it_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(1, json!({"template": {"spec": {"nodeName": "n1"}}})));
    cluster.settle().await;
    let first = cluster.get::<Pod>("web-0").uid().to_string();
    for _ in 0..3 {
        let refused = cluster.get::<Pod>("web-0");
        cluster.fail(&refused);
        cluster.pass(10).await;
        assert_ne!(cluster.get::<Pod>("web-0").uid(), refused.uid());
    }
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), status(&cluster).as_str()), ("0:v1", "1 1 1 1 v1>v1"));
    assert_ne!(cluster.get::<Pod>("web-0").uid(), first);
    assert_eq!(cluster.events("FailedCreate"), [""; 0]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_is_waited_for_sts_3() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Pod>(json!({"metadata": {"name": "web-0", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "other"}]}}));
    cluster.create::<StatefulSet>(web(1, json!({})));
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), status(&cluster).as_str()), ("0:other", "0 0 0 0 v1>v1"));
    delete_pod(&cluster, "web-0");
    cluster.run().await;
    assert_eq!(pods(&cluster), "0:v1");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_changed_labels_is_released_until_they_match_again_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(1, json!({})));
    cluster.run().await;
    cluster.change::<Pod>("web-0", |pod| {
        pod.metadata.labels.as_mut().unwrap().insert("app".into(), "debug".into());
    });
    cluster.run().await;
    assert!(controller_of(&cluster.get::<Pod>("web-0").metadata).is_none());
    assert_eq!(status(&cluster), "0 0 0 0 v1>v1");
    cluster.change::<Pod>("web-0", |pod| {
        pod.metadata.labels.as_mut().unwrap().insert("app".into(), "nginx".into());
    });
    cluster.run().await;
    assert!(controller_of(&cluster.get::<Pod>("web-0").metadata).is_some());
    assert_eq!(status(&cluster), "1 1 1 1 v1>v1");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_identity_that_was_scratched_off_is_put_back_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(1, json!({})));
    cluster.run().await;
    cluster.change::<Pod>("web-0", |pod| {
        pod.metadata.labels.as_mut().unwrap().remove("statefulset.kubernetes.io/pod-name");
    });
    cluster.run().await;
    let labels = cluster.get::<Pod>("web-0").metadata.labels.clone().unwrap();
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "web-0");
    assert_eq!(cluster.events("SuccessfulUpdate"), ["update Pod web-0 in StatefulSet web successful"]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_pod_of_a_stateful_set_is_reported_and_retried_sts_1() {
    let cluster = Cluster::start(NO_NODES);
    // A pod of this class cannot be created until the class exists.
    cluster.create::<StatefulSet>(web(1, json!({"template": {"spec": {"priorityClassName": "high"}}})));
    cluster.settle().await;
    assert_eq!(
        cluster.events("FailedCreate"),
        [
            "create Pod web-0 in StatefulSet web failed error: pods \"web-0\" is forbidden: no PriorityClass with name high was found"
        ]
    );
    cluster.create::<k8s_openapi::api::scheduling::v1::PriorityClass>(
        json!({"metadata": {"name": "high"}, "value": 1000}),
    );
    cluster.pass(1000).await;
    cluster.run().await;
    assert_eq!(pods(&cluster), "0:v1");
    cluster.stop().await;
}

/// The Node object is deleted, but its processes may still run. An identity is free only when no process of it runs.
#[tokio::test(start_paused = true)]
async fn an_identity_on_a_deleted_node_is_not_given_again_while_its_processes_may_run_safe_1() {
    let cluster = Cluster::start(&["nodelifecycle"]);
    cluster.create::<Node>(node("n1", ""));
    cluster.create::<StatefulSet>(web(1, json!({})));
    cluster.run().await;
    let first = cluster.get::<Pod>("web-0");
    cluster.api.hold_node("n1");
    cluster.api.delete(Kind::Node, &Key::new("", "n1"), &DeleteOptions::default()).unwrap();
    cluster.pass(3600).await;
    assert_eq!(cluster.get::<Pod>("web-0").uid(), first.uid(), "its processes may still run");
    cluster.api.release_node("n1");
    cluster.pass(120).await;
    assert_ne!(cluster.get::<Pod>("web-0").uid(), first.uid(), "it is replaced");
    cluster.stop().await;
}

/// Two copies of the controller with different caches would otherwise create and delete pods as fast as the machine
/// can.
#[tokio::test(start_paused = true)]
async fn recreation_of_deleted_stateful_set_pods_is_rate_limited_sts_1_safe_6() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<StatefulSet>(web(1, json!({})));
    cluster.settle().await;
    let made = cluster.delete_new_pods_for(Duration::from_secs(2)).await;
    assert!((9..=11).contains(&made), "the name stays free for 200 ms each time: {made}");
    cluster.pass(1).await;
    assert_eq!(pods(&cluster), "0:v1!");
    cluster.stop().await;
}
