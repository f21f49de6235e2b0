//! Nodes that fall silent, and the reaction to it (NODE-2), on virtual time.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, NodeCondition, Pod};
use podium::api::DeleteOptions;
use podium::object::pod::printed_status;
use podium::object::pod::{condition, is_ready, phase};
use podium::object::{Key, Kind};
use serde_json::{Value, json};

use super::cluster::{Cluster, deployment};

/// A ready node in a zone; of none when that is empty.
pub(super) fn node(name: &str, zone: &str) -> Value {
    let labels = if zone.is_empty() { json!({}) } else { json!({"topology.kubernetes.io/zone": zone}) };
    json!({"metadata": {"name": name, "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": "True",
            "reason": "KubeletReady", "lastHeartbeatTime": "2026-11-21T00:00:00Z"}]}})
}

/// Starts with nodes as `name:zone`, all of them ready, without kubelets that renew that.
pub(super) fn started(nodes: &[&str]) -> Cluster {
    let cluster = Cluster::start(&["garbagecollector"]);
    let leases = json!({"metadata": {"name": "kube-node-lease"}});
    cluster.api.create_as(serde_json::from_value::<Namespace>(leases).unwrap()).unwrap();
    for text in nodes {
        let (name, zone) = text.split_once(':').unwrap_or((text, ""));
        cluster.create::<Node>(node(name, zone));
    }
    cluster
}

/// The kubelet of a node renews its Lease.
fn renew(cluster: &Cluster, name: &str) {
    let now = cluster.api.clock().micro_time();
    let key = Key::new("kube-node-lease", name);
    let renewed = cluster.api.modify::<Lease>(&key, |lease| {
        lease.spec.get_or_insert_default().renew_time = Some(now.clone());
        Ok(())
    });
    if renewed.is_err() {
        let lease = json!({"metadata": {"name": name, "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": name, "renewTime": now}});
        cluster.api.create_as::<Lease>(serde_json::from_value(lease).unwrap()).unwrap();
    }
}

/// Lets time pass while these nodes send heartbeats; the others are silent.
pub(super) async fn pass(cluster: &Cluster, seconds: u64, heard: &[&str]) {
    let mut left = seconds;
    loop {
        for name in heard {
            renew(cluster, name);
        }
        let now = left.min(10);
        cluster.pass(now).await;
        left -= now;
        if left == 0 {
            return;
        }
    }
}

/// The kubelet reports a condition.
pub(super) fn report(cluster: &Cluster, name: &str, type_: &str, status: &str) {
    let now = cluster.api.clock().time();
    cluster
        .api
        .modify_status::<Node>(&Key::new("", name), |node| {
            let conditions = node.status.get_or_insert_default().conditions.get_or_insert_default();
            conditions.retain(|c| c.type_ != type_);
            conditions.push(NodeCondition {
                type_: type_.into(),
                status: status.into(),
                last_heartbeat_time: Some(now.clone()),
                ..NodeCondition::default()
            });
            Ok(())
        })
        .unwrap();
}

fn get(cluster: &Cluster, name: &str) -> Node {
    (*cluster.api.get_as::<Node>(&Key::new("", name)).unwrap()).clone()
}

/// Formats the node's taints as `key:effect`.
pub(super) fn taints(cluster: &Cluster, name: &str) -> String {
    let taints = get(cluster, name).spec.unwrap_or_default().taints.unwrap_or_default();
    taints.iter().map(|t| format!("{}:{}", &t.key[19..], t.effect)).collect::<Vec<_>>().join(" ")
}

/// Returns the nodes with a `NoExecute` taint, from which pods are evicted.
pub(super) fn evicted_nodes(cluster: &Cluster) -> String {
    let nodes = cluster.api.list_as::<Node>(None);
    let names = nodes.iter().map(|n| n.name().to_string());
    names.filter(|n| taints(cluster, n).contains("NoExecute")).collect::<Vec<_>>().join(" ")
}

/// A Deployment of one pod, on `n1`, that tolerates an unreachable or unready node for this long.
fn tolerant_deployment(seconds: i64) -> Value {
    let toleration = |key: &str| {
        json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": seconds})
    };
    let mut web = deployment("web", 1, 1, 0);
    web["spec"]["template"]["spec"]["tolerations"] =
        json!([toleration("unreachable"), toleration("not-ready")]);
    web
}

pub(super) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_tainted_and_its_pods_leave_after_their_time_node_2_safe_4() {
    let cluster = started(&["n1", "n2"]);
    cluster.create::<Deployment>(tolerant_deployment(300));
    cluster.run().await;
    pass(&cluster, 120, &["n1", "n2"]).await;
    assert_eq!(taints(&cluster, "n1"), "", "a Lease is heartbeat enough");
    pass(&cluster, 41, &["n2"]).await;
    assert_eq!(taints(&cluster, "n1"), "unreachable:NoSchedule unreachable:NoExecute");
    let ready = get(&cluster, "n1").status.unwrap().conditions.unwrap();
    let ready = ready.iter().find(|c| c.type_ == "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_deref()), ("Unknown", Some("NodeStatusUnknown")));
    let pod = cluster.pods().remove(0);
    assert!(!is_ready(&pod) && !is_terminating(&pod));
    assert_eq!(cluster.sets(), "1:1/0");
    // POD-1, SAFE-4: the pod's state is unknown, so its phase stays as its kubelet last reported it, as in Kubernetes
    // since taints evict; only a pod that an older controller marked `NodeLost` is printed as Unknown.
    let printed = |pod: &Pod| (phase(pod).to_string(), printed_status(pod).status);
    assert_eq!(printed(&pod), ("Running".into(), "Running".into()));
    pass(&cluster, 290, &["n2"]).await;
    assert!(!is_terminating(&cluster.get::<Pod>(pod.name())));
    pass(&cluster, 12, &["n2"]).await;
    let gone = cluster.get::<Pod>(pod.name());
    assert!(is_terminating(&gone), "only its kubelet can remove it");
    let disruption = condition(&gone, "DisruptionTarget").unwrap();
    assert_eq!(disruption.reason.as_deref(), Some("DeletionByTaintManager"));
    // SAFE-4: the condition names the partition, and its meaning.
    let message = disruption.message.as_deref().unwrap();
    let (why, what) = message.split_once(" since ").unwrap();
    assert_eq!(
        why,
        "Taint manager: deleting due to NoExecute taint node.kubernetes.io/unreachable: node n1 is \
         unreachable"
    );
    assert!(
        what.contains("the pod may still run there until the node returns, is deleted or is fenced"),
        "{what}"
    );
    let ready = condition(&gone, "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_deref()), ("False", Some("NodeUnreachable")));
    assert_eq!(printed(&gone), ("Running".into(), "Terminating".into()));
    assert_eq!(cluster.pods().len(), 2, "and it has been replaced");

    report(&cluster, "n1", "Ready", "True");
    cluster.settle().await;
    assert_eq!(taints(&cluster, "n1"), "");
    cluster
        .api
        .modify::<Node>(&Key::new("", "n1"), |n| {
            n.spec.get_or_insert_default().unschedulable = Some(true);
            Ok(())
        })
        .unwrap();
    cluster.settle().await;
    assert_eq!(taints(&cluster, "n1"), "unschedulable:NoSchedule");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_heard_in_time_keeps_its_pods_node_2() {
    let cluster = started(&["n1", "n2"]);
    cluster.create::<Deployment>(tolerant_deployment(300));
    cluster.run().await;
    pass(&cluster, 10, &["n1", "n2"]).await;
    pass(&cluster, 240, &["n2"]).await;
    assert_eq!(evicted_nodes(&cluster), "n1");
    report(&cluster, "n1", "Ready", "True");
    cluster.settle().await;
    let pod = cluster.pods().remove(0);
    assert_eq!(cluster.events("TaintManagerEviction"), [format!("Cancelling deletion of Pod {}", pod.key())]);
    pass(&cluster, 600, &["n1", "n2"]).await;
    assert!(!is_terminating(&cluster.get::<Pod>(pod.name())));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn taints_follow_what_the_kubelet_reports_node_2() {
    let cluster = started(&["n1", "n2"]);
    cluster.create::<Deployment>(tolerant_deployment(300));
    cluster.run().await;
    for (type_, key) in [
        ("MemoryPressure", "memory-pressure"),
        ("DiskPressure", "disk-pressure"),
        ("PIDPressure", "pid-pressure"),
    ] {
        report(&cluster, "n1", type_, "True");
        cluster.settle().await;
        assert_eq!(taints(&cluster, "n1"), format!("{key}:NoSchedule"));
        report(&cluster, "n1", type_, "False");
        cluster.settle().await;
        assert_eq!(taints(&cluster, "n1"), "");
    }
    report(&cluster, "n1", "Ready", "False");
    cluster.pass(1).await;
    assert_eq!(taints(&cluster, "n1"), "not-ready:NoSchedule not-ready:NoExecute");
    assert!(!is_ready(&cluster.pods()[0]), "the pods of an unready node are not ready");
    pass(&cluster, 55, &["n2"]).await;
    assert_eq!(taints(&cluster, "n1"), "unreachable:NoSchedule unreachable:NoExecute", "one or the other");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_evicted_while_every_node_is_silent_node_2() {
    let cluster = started(&["n1:a", "n2:b", "n3:c"]);
    cluster.create::<Deployment>(tolerant_deployment(300));
    cluster.run().await;
    pass(&cluster, 10, &["n1", "n2", "n3"]).await;
    // The nodes fall silent one after the other: the first is believed until the last one falls silent, too.
    pass(&cluster, 30, &["n2", "n3"]).await;
    pass(&cluster, 20, &["n3"]).await;
    assert_eq!(evicted_nodes(&cluster), "n1");
    pass(&cluster, 60, &[]).await;
    assert_eq!(evicted_nodes(&cluster), "");
    for name in ["n1", "n2", "n3"] {
        assert_eq!(taints(&cluster, name), "unreachable:NoSchedule");
    }
    pass(&cluster, 600, &[]).await;
    let pod = cluster.pods().remove(0);
    assert!(!is_terminating(&pod) && !is_ready(&pod), "the pod stays, and is not ready");

    report(&cluster, "n3", "Ready", "True");
    pass(&cluster, 5, &["n3"]).await;
    assert_eq!(evicted_nodes(&cluster), "", "no hurry");
    pass(&cluster, 6, &["n3"]).await;
    assert_eq!(evicted_nodes(&cluster), "n1 n2");
    pass(&cluster, 301, &["n3"]).await;
    assert!(is_terminating(&cluster.get::<Pod>(pod.name())), "its time counts from then on");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_zone_gives_up_its_nodes_one_by_one_or_not_at_all_node_2() {
    let names: Vec<String> = (1..=6).map(|n| format!("n{n}:a")).chain(["z:b".to_string()]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let cluster = started(&names);
    pass(&cluster, 10, &["n1", "n2", "n3", "n4", "n5", "n6", "z"]).await;
    // Three of six nodes are silent: one is evicted every ten seconds.
    pass(&cluster, 41, &["n4", "n5", "n6", "z"]).await;
    assert_eq!(evicted_nodes(&cluster), "n1");
    pass(&cluster, 10, &["n4", "n5", "n6", "z"]).await;
    assert_eq!(evicted_nodes(&cluster), "n1 n2");
    // Four of six nodes are silent: the zone is not to be trusted, and the pods of n3 are not evicted.
    report(&cluster, "n4", "Ready", "False");
    pass(&cluster, 300, &["n5", "n6", "z"]).await;
    assert_eq!(evicted_nodes(&cluster), "n1 n2");
    assert_eq!(taints(&cluster, "n3"), "unreachable:NoSchedule");
    report(&cluster, "n4", "Ready", "True");
    pass(&cluster, 11, &["n4", "n5", "n6", "z"]).await;
    assert_eq!(evicted_nodes(&cluster), "n1 n2 n3");
    // The whole zone is silent while another sends heartbeats: it has really failed.
    pass(&cluster, 100, &["z"]).await;
    assert_eq!(evicted_nodes(&cluster), "n1 n2 n3 n4 n5 n6");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_node_gets_a_minute_to_report_node_2() {
    let cluster = started(&["n1"]);
    cluster.create::<Node>(json!({"metadata": {"name": "new"}}));
    pass(&cluster, 55, &["n1"]).await;
    assert!(get(&cluster, "new").status.unwrap_or_default().conditions.is_none());
    pass(&cluster, 6, &["n1"]).await;
    let conditions = get(&cluster, "new").status.unwrap().conditions.unwrap();
    let reasons: Vec<&str> = conditions.iter().map(|c| c.reason.as_deref().unwrap_or_default()).collect();
    assert_eq!(reasons, ["NodeStatusNeverUpdated"; 4]);
    assert_eq!(taints(&cluster, "new"), "unreachable:NoSchedule unreachable:NoExecute");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_controller_gives_every_node_its_full_grace_period_node_2_safe_6() {
    let cluster = started(&["n1", "n2"]);
    cluster.create::<Deployment>(tolerant_deployment(300));
    cluster.run().await;
    pass(&cluster, 10, &["n1", "n2"]).await;
    pass(&cluster, 25, &["n2"]).await;
    cluster.controllers.stop_one("nodelifecycle").await;
    cluster.controllers.start_one("nodelifecycle");
    pass(&cluster, 45, &["n2"]).await;
    assert_eq!(taints(&cluster, "n1"), "");
    pass(&cluster, 6, &["n2"]).await;
    assert_eq!(evicted_nodes(&cluster), "n1");
    // The time of its pods counts from the taint, even after the controllers restart.
    pass(&cluster, 200, &["n2"]).await;
    for name in ["nodelifecycle", "taint-eviction-controller"] {
        cluster.controllers.stop_one(name).await;
        cluster.controllers.start_one(name);
    }
    pass(&cluster, 90, &["n2"]).await;
    assert!(cluster.pods().iter().all(|pod| !is_terminating(pod)));
    pass(&cluster, 15, &["n2"]).await;
    assert!(cluster.pods().iter().any(|pod| is_terminating(pod)));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_that_registers_again_is_treated_as_new_node_5_node_6() {
    let cluster = started(&["n1", "n2"]);
    pass(&cluster, 10, &["n1", "n2"]).await;
    pass(&cluster, 55, &["n2"]).await;
    assert_eq!(evicted_nodes(&cluster), "n1");
    cluster.api.delete(Kind::Node, &Key::new("", "n1"), &DeleteOptions::default()).unwrap();
    cluster.settle().await;
    let registered = |name: &str| {
        let expected = format!("Node {name} event: Registered Node {name} in Controller");
        cluster.events("RegisteredNode").iter().filter(|message| **message == expected).count()
    };
    assert_eq!(cluster.events("RemovingNode"), ["Node n1 event: Removing Node n1 from Controller"]);
    assert_eq!((registered("n1"), registered("n2")), (1, 1));
    cluster.create::<Node>(node("n1", ""));
    pass(&cluster, 49, &["n2"]).await;
    assert_eq!(taints(&cluster, "n1"), "");
    pass(&cluster, 2, &["n2"]).await;
    assert_eq!(evicted_nodes(&cluster), "n1");
    cluster.stop().await;
}
