//! Taints, and pods that tolerate them (NODE-2, NODE-3): the pages about taints, tolerations and conditions.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use podium::api::DeleteOptions;
use podium::object::pod::condition;
use podium::object::{Key, Kind};
use serde_json::{Value, json};

use super::cluster::{Cluster, deployment, key};
use super::nodes::{evicted_nodes, is_terminating, pass, report, started, taints};

/// Adds taints to a node's existing ones: `key:effect`.
fn taint(cluster: &Cluster, node: &str, words: &[&str]) {
    let now = cluster.api.clock().time();
    let tainted = cluster.api.modify::<Node>(&Key::new("", node), |node| {
        let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
        taints.retain(|t| t.key.starts_with("node.kubernetes.io/"));
        for word in words {
            let (key, effect) = word.split_once(':').unwrap();
            let time_added = (effect == "NoExecute").then(|| now.clone());
            taints.push(Taint { key: key.into(), effect: effect.into(), value: None, time_added });
        }
        Ok(())
    });
    tainted.unwrap();
}

fn pod(name: &str, tolerations: &Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": name}}, "spec": {
        "nodeName": "n1", "tolerations": tolerations,
        "containers": [{"name": "c", "image": "nginx:1.7.9"}]}})
}

fn exists(key: &str, seconds: Option<i64>) -> Value {
    json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds})
}

/// Returns the pods that are not terminating.
fn remaining_pods(cluster: &Cluster) -> String {
    let mut names: Vec<String> =
        cluster.pods().iter().filter(|pod| !is_terminating(pod)).map(|pod| pod.name().to_string()).collect();
    names.sort();
    names.join(" ")
}

#[tokio::test(start_paused = true)]
async fn a_users_taint_drives_away_by_its_effect_and_by_what_pods_tolerate_node_2() {
    let cluster = started(&["n1", "n2"]);
    for (name, tolerations) in [
        ("plain", json!([])),
        ("ever", json!([exists("team", None)])),
        ("hour", json!([exists("team", Some(3600))])),
        ("minute", json!([exists("team", Some(60))])),
        ("zero", json!([exists("team", Some(0))])),
        ("all", json!([{"operator": "Exists"}])),
        ("other", json!([exists("crew", None)])),
        ("wrong", json!([{"key": "team", "operator": "Equal", "value": "b", "effect": "NoExecute"}])),
    ] {
        cluster.create::<Pod>(pod(name, &tolerations));
    }
    cluster.settle().await;
    let everybody = "all ever hour minute other plain wrong zero";
    for effect in ["NoSchedule", "PreferNoSchedule"] {
        taint(&cluster, "n1", &[&format!("team:{effect}")]);
        pass(&cluster, 60, &["n1", "n2"]).await;
        assert_eq!(remaining_pods(&cluster), everybody, "{effect} evicts no running pod");
    }
    taint(&cluster, "n1", &["team:NoExecute"]);
    pass(&cluster, 1, &["n1", "n2"]).await;
    assert_eq!(remaining_pods(&cluster), "all ever hour minute");
    pass(&cluster, 60, &["n1", "n2"]).await;
    assert_eq!(remaining_pods(&cluster), "all ever hour");
    let reason = condition(&cluster.get::<Pod>("minute"), "DisruptionTarget").unwrap().reason.clone();
    assert_eq!(reason.as_deref(), Some("DeletionByTaintManager"));
    // A toleration of the first taint does not cover a second one.
    taint(&cluster, "n1", &["team:NoExecute", "night:NoExecute"]);
    pass(&cluster, 1, &["n1", "n2"]).await;
    assert_eq!(remaining_pods(&cluster), "all");
    // A pod that is bound by name in spite of the taint has to leave as well.
    cluster.create::<Pod>(pod("late", &json!([])));
    pass(&cluster, 1, &["n1", "n2"]).await;
    assert_eq!(remaining_pods(&cluster), "all");
    cluster.stop().await;
}

/// kubectl sets no `timeAdded`; the countdown starts when the taint was first observed, and later passes do not restart
/// it.
#[tokio::test(start_paused = true)]
async fn a_taint_without_a_time_drives_a_pod_away_after_its_toleration_seconds_node_2() {
    let cluster = started(&["n1", "n2"]);
    cluster.create::<Pod>(pod("minute", &json!([exists("team", Some(60))])));
    cluster.settle().await;
    let set = |taints: Value| {
        let changed = cluster.api.modify::<Node>(&Key::new("", "n1"), |node| {
            node.spec.get_or_insert_default().taints = serde_json::from_value(taints.clone()).unwrap();
            Ok(())
        });
        changed.unwrap();
    };
    let team = json!({"key": "team", "value": "a", "effect": "NoExecute"});
    set(json!([team]));
    for _ in 0..5 {
        pass(&cluster, 10, &["n1", "n2"]).await;
        // Every change of the pod and of the node's taints starts a new pass.
        cluster.change::<Pod>("minute", |pod| {
            let annotations = pod.metadata.annotations.get_or_insert_default();
            annotations.insert("seen".into(), cluster.api.clock().now().to_string());
        });
        set(json!([team, {"key": "night", "effect": "NoSchedule"}]));
    }
    assert_eq!(remaining_pods(&cluster), "minute");
    set(json!([]));
    pass(&cluster, 20, &["n1", "n2"]).await;
    assert_eq!(remaining_pods(&cluster), "minute", "the taint has gone");
    set(json!([team]));
    pass(&cluster, 50, &["n1", "n2"]).await;
    assert_eq!(remaining_pods(&cluster), "minute", "a taint that returned counts anew");
    cluster.create::<Pod>(pod("late", &json!([exists("team", Some(60))])));
    pass(&cluster, 15, &["n1", "n2"]).await;
    assert_eq!(remaining_pods(&cluster), "late", "a pod that comes to a tainted node has its whole time");
    pass(&cluster, 60, &["n1", "n2"]).await;
    assert_eq!(remaining_pods(&cluster), "");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_do_not_say_leave_a_silent_node_after_five_minutes_daemons_never_node_2() {
    let cluster = started(&["n1", "n2"]);
    cluster.create::<Deployment>(deployment("web", 1, 1, 0));
    cluster.create::<DaemonSet>(json!({"metadata": {"name": "agent", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": {
            "metadata": {"labels": {"app": "agent"}},
            "spec": {"containers": [{"name": "c", "image": "nginx:1.7.9"}]}}}}));
    cluster.create::<Pod>(pod("ever", &json!([exists("node.kubernetes.io/unreachable", None)])));
    cluster.run().await;
    pass(&cluster, 10, &["n1", "n2"]).await;
    let web = cluster.pods().iter().find(|p| p.name().starts_with("web")).unwrap().clone();
    let tolerations = web.spec.as_ref().unwrap().tolerations.clone().unwrap();
    let tolerations: Vec<_> =
        tolerations.iter().map(|t| (t.key.as_deref().unwrap(), t.toleration_seconds)).collect();
    assert_eq!(
        tolerations,
        [("node.kubernetes.io/not-ready", Some(300)), ("node.kubernetes.io/unreachable", Some(300))]
    );
    pass(&cluster, 41, &["n2"]).await;
    assert_eq!(evicted_nodes(&cluster), "n1");
    pass(&cluster, 295, &["n2"]).await;
    assert!(!is_terminating(&cluster.get::<Pod>(web.name())));
    pass(&cluster, 10, &["n2"]).await;
    let going: Vec<String> =
        cluster.pods().iter().filter(|pod| is_terminating(pod)).map(|pod| pod.name().to_string()).collect();
    assert_eq!(going, [web.name()]);
    pass(&cluster, 3600, &["n2"]).await;
    assert!(!is_terminating(&cluster.get::<Pod>("ever")));
    let agents =
        cluster.pods().iter().filter(|p| p.name().starts_with("agent") && !is_terminating(p)).count();
    assert_eq!(agents, 2, "daemons wait for their node");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_may_be_given_more_time_while_it_waits_and_none_is_taken_node_2() {
    let cluster = started(&["n1", "n2"]);
    for name in ["longer", "much-longer"] {
        cluster.create::<Pod>(pod(name, &json!([exists("team", Some(60))])));
    }
    taint(&cluster, "n1", &["team:NoExecute"]);
    pass(&cluster, 30, &["n1", "n2"]).await;
    let change = |name: &str, edit: &dyn Fn(&mut Vec<Toleration>)| {
        cluster.api.modify::<Pod>(&key(name), |pod| {
            edit(pod.spec.as_mut().unwrap().tolerations.as_mut().unwrap());
            Ok(())
        })
    };
    change("longer", &|tolerations| tolerations[0].toleration_seconds = Some(600)).unwrap();
    change("much-longer", &|tolerations| tolerations[0].toleration_seconds = Some(1_000_000)).unwrap();
    let taken = change("longer", &|tolerations| drop(tolerations.remove(0)));
    assert!(taken.unwrap_err().to_string().contains("existing toleration can not be modified"));
    pass(&cluster, 60, &["n1", "n2"]).await;
    assert_eq!(remaining_pods(&cluster), "longer much-longer");
    pass(&cluster, 540, &["n1", "n2"]).await;
    assert_eq!(remaining_pods(&cluster), "much-longer", "its time counts from the taint");
    // The taint is removed while a pod waits.
    taint(&cluster, "n1", &[]);
    pass(&cluster, 1, &["n1", "n2"]).await;
    let cancelled = "Cancelling deletion of Pod default/much-longer";
    assert_eq!(cluster.events("TaintManagerEviction").last().unwrap(), cancelled);
    taint(&cluster, "n1", &["team:NoExecute"]);
    pass(&cluster, 900, &["n1", "n2"]).await;
    assert_eq!(remaining_pods(&cluster), "much-longer");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_budget_holds_what_a_taint_drives_away_node_2_pdb_1() {
    let cluster = started(&["n1", "n2"]);
    cluster.create::<Deployment>(deployment("web", 1, 1, 0));
    cluster.create::<PodDisruptionBudget>(json!({"metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}));
    cluster.run().await;
    let pod = cluster.pods().remove(0);
    let evicted = cluster.api.evict(&pod.key(), &DeleteOptions::default());
    let refused = "Cannot evict pod as it would violate the pod's disruption budget.";
    assert_eq!(evicted.unwrap_err().to_string(), refused);
    taint(&cluster, "n1", &["team:NoExecute"]);
    cluster.settle().await;
    assert!(is_terminating(&cluster.get::<Pod>(pod.name())));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_network_and_a_cordoned_one_get_no_new_pods_node_2_node_3() {
    let cluster = started(&["n1", "n2"]);
    report(&cluster, "n1", "NetworkUnavailable", "True");
    cluster.settle().await;
    assert_eq!(taints(&cluster, "n1"), "network-unavailable:NoSchedule");
    let cordon = |on: Option<bool>| {
        let changed = cluster.api.modify::<Node>(&Key::new("", "n1"), |node| {
            node.spec.get_or_insert_default().unschedulable = on;
            Ok(())
        });
        changed.unwrap();
    };
    cordon(Some(true));
    cluster.settle().await;
    assert_eq!(taints(&cluster, "n1"), "network-unavailable:NoSchedule unschedulable:NoSchedule");
    report(&cluster, "n1", "NetworkUnavailable", "False");
    cordon(None);
    cluster.settle().await;
    assert_eq!(taints(&cluster, "n1"), "");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_nodes_set_waits_until_the_node_is_deleted_node_5_safe_4() {
    let cluster = started(&["n1", "n2"]);
    cluster.create::<StatefulSet>(json!({"metadata": {"name": "db", "namespace": "default"},
        "spec": {"replicas": 1, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": {
            "metadata": {"labels": {"app": "db"}},
            "spec": {"containers": [{"name": "c", "image": "nginx:1.7.9"}]}}}}));
    cluster.run().await;
    pass(&cluster, 10, &["n1", "n2"]).await;
    let before = cluster.get::<Pod>("db-0");
    pass(&cluster, 400, &["n2"]).await;
    let after = cluster.get::<Pod>("db-0");
    assert!(
        is_terminating(&after) && after.uid() == before.uid(),
        "a pod that may still run is not replaced"
    );
    let events = cluster.events("NodeNotReady");
    assert!(events.contains(&"Node is not ready".to_string()), "{events:?}");
    assert!(events.contains(&"Node n1 status is now: NodeNotReady".to_string()), "{events:?}");
    cluster.api.delete(Kind::Node, &Key::new("", "n1"), &DeleteOptions::default()).unwrap();
    pass(&cluster, 39, &["n2"]).await;
    assert_eq!(cluster.get::<Pod>("db-0").uid(), before.uid(), "the node may only have been mislaid");
    pass(&cluster, 5, &["n2"]).await;
    assert_ne!(cluster.get::<Pod>("db-0").uid(), before.uid());
    cluster.stop().await;
}
