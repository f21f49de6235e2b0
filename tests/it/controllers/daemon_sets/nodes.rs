//! One pod on every node: nodes are added, deleted and changed; pods fail, or cannot be created.

use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use podium::api::DeleteOptions;
use podium::object::pod::{Phase, phase};
use podium::object::{Key, Kind};
use serde_json::json;

use super::super::cluster::{Cluster, NO_NODES};
use super::{counts, daemon_set, node, node_of, pods, revisions, started, status};

fn change_node(cluster: &Cluster, name: &str, edit: impl Fn(&mut Node)) {
    cluster
        .api
        .modify::<Node>(&Key::new("", name), |node| {
            edit(node);
            Ok(())
        })
        .unwrap();
}

fn taint(cluster: &Cluster, node: &str, effect: Option<&str>) {
    let taint = |effect: &str| Taint { key: "mine".into(), effect: effect.into(), ..Taint::default() };
    change_node(cluster, node, |n| n.spec.get_or_insert_default().taints = effect.map(|e| vec![taint(e)]));
}

#[tokio::test(start_paused = true)]
async fn daemons_follow_the_nodes_that_come_and_go_ds_1() {
    let cluster = started(&["n1", "n2"], daemon_set("agent")).await;
    assert_eq!(pods(&cluster), "n1=one n2=one");
    assert_eq!(counts(&cluster), [2, 2, 2, 2, 2, 0]);
    let set = cluster.get::<DaemonSet>("agent");
    assert_eq!(status(&cluster).observed_generation, set.metadata.generation);
    let created = cluster.events("SuccessfulCreate");
    assert!(created.len() == 2 && created[0].starts_with("Created pod: agent-"), "{created:?}");

    let pod = cluster.pods().remove(0);
    let revision = revisions(&cluster).remove(0);
    let hash = |labels: &Option<std::collections::BTreeMap<String, String>>| {
        labels.as_ref().unwrap()["controller-revision-hash"].clone()
    };
    assert_eq!(hash(&pod.metadata.labels), hash(&revision.metadata.labels));
    assert_eq!(pod.metadata.owner_references.as_ref().unwrap()[0].kind, "DaemonSet");

    cluster.create::<Node>(node("n3", json!({})));
    cluster.run().await;
    assert_eq!(pods(&cluster), "n1=one n2=one n3=one");
    // Its node is deleted before the scheduler has bound the pod.
    cluster.create::<Node>(node("n4", json!({})));
    cluster.settle().await;
    assert_eq!(counts(&cluster), [4, 4, 3, 4, 3, 0]);
    cluster.api.delete(Kind::Node, &Key::new("", "n4"), &DeleteOptions::default()).unwrap();
    cluster.run().await;
    assert_eq!(pods(&cluster), "n1=one n2=one n3=one");
    assert_eq!(counts(&cluster), [3, 3, 3, 3, 3, 0]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_takes_its_daemon_with_it_ds_1_node_5() {
    let cluster = Cluster::start(&["nodelifecycle"]);
    for name in ["n1", "n2"] {
        cluster.create::<Node>(node(name, json!({})));
    }
    cluster.create::<DaemonSet>(daemon_set("agent"));
    cluster.run().await;
    cluster.api.delete(Kind::Node, &Key::new("", "n2"), &DeleteOptions::default()).unwrap();
    cluster.settle().await;
    assert_eq!(counts(&cluster), [1, 1, 1, 1, 1, 0], "a node that is gone wants nothing");
    assert_eq!(pods(&cluster), "n1=one n2=one", "and its pod is not for the set to remove");
    cluster.pass(41).await;
    assert_eq!(pods(&cluster), "n1=one", "PodGC has");
    cluster.create::<Node>(node("n2", json!({})));
    cluster.run().await;
    assert_eq!(pods(&cluster), "n1=one n2=one");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn labels_and_taints_move_daemons_ds_1() {
    let mut set = daemon_set("agent");
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    let cluster = started(&["n1", "n2", "n3"], set).await;
    assert_eq!(pods(&cluster), "n1=one n2=one n3=one");

    let label = |value: &'static str| {
        move |node: &mut Node| {
            node.metadata.labels = Some([("disk".to_string(), value.to_string())].into());
        }
    };
    change_node(&cluster, "n1", label("hdd"));
    cluster.settle().await;
    assert_eq!(pods(&cluster), "n2=one n3=one", "asked to go");
    assert_eq!(counts(&cluster), [2, 2, 2, 2, 2, 1], "until it has gone it is where it should not be");
    cluster.run().await;
    assert_eq!(counts(&cluster), [2, 2, 2, 2, 2, 0]);
    change_node(&cluster, "n1", label("ssd"));
    cluster.run().await;
    assert_eq!(pods(&cluster), "n1=one n2=one n3=one");

    taint(&cluster, "n2", Some("NoSchedule"));
    cluster.run().await;
    assert_eq!(pods(&cluster), "n1=one n2=one n3=one", "existing pods stay");
    assert_eq!(counts(&cluster), [2, 2, 2, 2, 2, 1]);
    let there = cluster.pods().into_iter().find(|p| node_of(p) == "n2").unwrap();
    cluster.api.delete(Kind::Pod, &there.key(), &DeleteOptions::default()).unwrap();
    cluster.run().await;
    assert_eq!(pods(&cluster), "n1=one n3=one", "but does not come back");
    taint(&cluster, "n2", None);
    cluster.run().await;
    assert_eq!(pods(&cluster), "n1=one n2=one n3=one");
    taint(&cluster, "n3", Some("NoExecute"));
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), counts(&cluster)), ("n1=one n2=one", [2, 2, 2, 2, 2, 0]));

    change_node(&cluster, "n1", |n| n.spec.get_or_insert_default().unschedulable = Some(true));
    let cordoned = cluster.pods().into_iter().find(|p| node_of(p) == "n1").unwrap();
    cluster.api.delete(Kind::Pod, &cordoned.key(), &DeleteOptions::default()).unwrap();
    cluster.run().await;
    assert_eq!(pods(&cluster), "n1=one n2=one", "a cordon does not concern daemons");

    // The template selects other nodes: pods move at once, under any update strategy.
    change_node(&cluster, "n2", label("hdd"));
    cluster.change::<DaemonSet>("agent", |set| {
        let spec = set.spec.template.spec.as_mut().unwrap();
        spec.node_selector = Some([("disk".to_string(), "hdd".to_string())].into());
    });
    cluster.run().await;
    assert_eq!(pods(&cluster), "n2=one");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failed_daemons_are_replaced_more_slowly_each_time_ds_1() {
    let cluster = started(&["n1"], daemon_set("agent")).await;
    let refused = || {
        let pod = cluster.pods().remove(0);
        cluster.fail(&pod);
        pod
    };
    let first = refused();
    cluster.settle().await;
    let expected =
        format!("Found failed daemon pod default/{} on node n1, will try to kill it", first.name());
    assert_eq!(cluster.events("FailedDaemonPod"), [expected]);
    cluster.run().await;
    assert_ne!(cluster.pods()[0].uid(), first.uid());
    // The waits are 1, 2 and 4 seconds from the previous removal.
    for wait in [1, 2, 4] {
        let failed = refused();
        cluster.settle().await;
        assert_eq!(cluster.pods()[0].uid(), failed.uid(), "left alone for {wait} s");
        assert_eq!(phase(&cluster.pods()[0]), Phase::Failed);
        cluster.pass(wait).await;
        cluster.run().await;
        assert_ne!(cluster.pods()[0].uid(), failed.uid(), "replaced after {wait} s");
    }
    assert_eq!(cluster.events("FailedDaemonPod").len(), 4);

    let ended = cluster.pods().remove(0);
    cluster
        .api
        .modify_status::<Pod>(&ended.key(), |pod| {
            pod.status.as_mut().unwrap().phase = Some("Succeeded".into());
            Ok(())
        })
        .unwrap();
    cluster.run().await;
    let expected =
        format!("Found succeeded daemon pod default/{} on node n1, will try to delete it", ended.name());
    assert_eq!(cluster.events("SucceededDaemonPod"), [expected]);
    assert_eq!(pods(&cluster), "n1=one");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_cannot_be_made_fail_few_times_a_turn_ds_1() {
    let nodes: Vec<String> = (0..20).map(|n| format!("n{n:02}")).collect();
    let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let mut set = daemon_set("agent");
    set["spec"]["template"]["spec"]["priorityClassName"] = json!("none-such");
    let cluster = Cluster::start(NO_NODES);
    for name in names {
        cluster.create::<Node>(node(name, json!({})));
    }
    cluster.create::<DaemonSet>(set);
    cluster.pass(2).await;
    let failures = cluster.events("FailedCreate");
    let expected = |m: &String| m.starts_with("Error creating: ") && m.contains("none-such");
    assert!(failures.iter().all(expected), "{failures:?}");
    assert!((2..20).contains(&failures.len()), "one a turn, with a growing pause: {}", failures.len());
    assert_eq!(counts(&cluster), [20, 0, 0, 0, 0, 0]);
    cluster.stop().await;
}

/// Two copies of the controller with different caches would otherwise create and delete pods as fast as the machine
/// can.
#[tokio::test(start_paused = true)]
async fn recreation_of_deleted_daemon_pods_is_rate_limited_ds_1_safe_6() {
    let cluster = started(&[], daemon_set("agent")).await;
    cluster.create::<Node>(node("n1", json!({})));
    cluster.settle().await;
    let made = cluster.delete_new_pods_for(Duration::from_secs(2)).await;
    assert!((35..=45).contains(&made), "thirty, and five a second: {made}");
    cluster.pass(1).await;
    assert_eq!(pods(&cluster), "n1=one");
    cluster.stop().await;
}
