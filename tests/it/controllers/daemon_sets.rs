//! DaemonSets by scenario: nodes come, go and change; templates change; pods fail (DS-1).

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use podium::api::patch::PatchType;
use podium::api::{DeleteOptions, Propagation};
use podium::object::node::node_of;
use podium::object::node_selector::RequiredNodes;
use podium::object::readiness::{is_active, phase};
use podium::object::{Key, Kind, Object, Shared};
use serde_json::{Value, json};

use super::cluster::{Cluster, NO_NODES, key};

/// A node with labels.
#[expect(clippy::needless_pass_by_value, reason = "a literal reads best at the call")]
pub(super) fn node(name: &str, labels: Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
}

/// A DaemonSet of `app=NAME` pods.
pub(super) fn daemon_set(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "one"}]}}}})
}

/// With these nodes, and a DaemonSet `agent` that runs on all that it is for.
async fn started(nodes: &[&str], set: Value) -> Cluster {
    let cluster = Cluster::start(NO_NODES);
    for name in nodes {
        cluster.create::<Node>(node(name, json!({"disk": "ssd"})));
    }
    cluster.create::<DaemonSet>(set);
    cluster.run().await;
    cluster
}

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

pub(super) fn set_image(cluster: &Cluster, image: &str) {
    cluster.change::<DaemonSet>("agent", |set| {
        set.spec.template.spec.as_mut().unwrap().containers[0].image = Some(image.into());
    });
}

fn image(pod: &Pod) -> String {
    pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap()
}

/// Where a pod is, or is to be.
fn place(pod: &Pod) -> String {
    let required = RequiredNodes::of(pod.spec.as_ref().unwrap());
    let named = || required.names().and_then(|names| names.first().map(ToString::to_string));
    node_of(pod).map(Into::into).or_else(named).unwrap_or_default()
}

/// `node=image` of the set's pods that count, by node.
fn pods(cluster: &Cluster) -> String {
    let all = cluster.pods();
    let mut told: Vec<String> =
        all.iter().filter(|p| is_active(p)).map(|p| format!("{}={}", place(p), image(p))).collect();
    told.sort();
    told.join(" ")
}

fn status(cluster: &Cluster) -> DaemonSetStatus {
    cluster.get::<DaemonSet>("agent").status.clone().unwrap_or_default()
}

/// desired, current, ready, up to date, available, misscheduled: the columns of `kubectl get`.
fn counts(cluster: &Cluster) -> [i32; 6] {
    let s = status(cluster);
    [
        s.desired_number_scheduled,
        s.current_number_scheduled,
        s.number_ready,
        s.updated_number_scheduled.unwrap_or(0),
        s.number_available.unwrap_or(0),
        s.number_misscheduled,
    ]
}

fn revisions(cluster: &Cluster) -> Vec<Shared<ControllerRevision>> {
    let mut all = cluster.api.list_as::<ControllerRevision>(Some("default"));
    all.sort_by_key(|r| r.revision);
    all
}

fn numbers(cluster: &Cluster) -> Vec<i64> {
    revisions(cluster).iter().map(|r| r.revision.unwrap()).collect()
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
    // Before the scheduler has bound it, its node goes again.
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
    assert_eq!(pods(&cluster), "n1=one n2=one n3=one", "what is there stays");
    assert_eq!(counts(&cluster), [2, 2, 2, 2, 2, 1]);
    let there = cluster.pods().into_iter().find(|p| place(p) == "n2").unwrap();
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
    let cordoned = cluster.pods().into_iter().find(|p| place(p) == "n1").unwrap();
    cluster.api.delete(Kind::Pod, &cordoned.key(), &DeleteOptions::default()).unwrap();
    cluster.run().await;
    assert_eq!(pods(&cluster), "n1=one n2=one", "a cordon does not concern daemons");

    // The template asks for other nodes: pods move at once, whatever the update strategy.
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
    let told = format!("Found failed daemon pod default/{} on node n1, will try to kill it", first.name());
    assert_eq!(cluster.events("FailedDaemonPod"), [told]);
    cluster.run().await;
    assert_ne!(cluster.pods()[0].uid(), first.uid());
    // 1, 2 and 4 seconds from the removal before.
    for wait in [1, 2, 4] {
        let failed = refused();
        cluster.settle().await;
        assert_eq!(cluster.pods()[0].uid(), failed.uid(), "left alone for {wait} s");
        assert_eq!(phase(&cluster.pods()[0]), "Failed");
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
    let told =
        format!("Found succeeded daemon pod default/{} on node n1, will try to delete it", ended.name());
    assert_eq!(cluster.events("SucceededDaemonPod"), [told]);
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

#[tokio::test(start_paused = true)]
async fn on_delete_replaces_what_somebody_else_deletes_ds_1() {
    let mut set = daemon_set("agent");
    set["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    let cluster = started(&["n1", "n2"], set).await;
    set_image(&cluster, "two");
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), counts(&cluster)), ("n1=one n2=one", [2, 2, 2, 0, 2, 0]));
    let pod = cluster.pods().into_iter().find(|p| place(p) == "n2").unwrap();
    cluster.api.delete(Kind::Pod, &pod.key(), &DeleteOptions::default()).unwrap();
    cluster.run().await;
    assert_eq!((pods(&cluster).as_str(), counts(&cluster)), ("n1=one n2=two", [2, 2, 2, 1, 2, 0]));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_update_waits_for_min_ready_seconds_by_a_timer_ds_1() {
    let mut set = daemon_set("agent");
    set["spec"]["minReadySeconds"] = json!(30);
    let cluster = started(&["n1", "n2"], set).await;
    assert_eq!(counts(&cluster), [2, 2, 2, 2, 0, 0]);
    cluster.pass(29).await;
    assert_eq!(counts(&cluster), [2, 2, 2, 2, 0, 0]);
    cluster.pass(2).await;
    assert_eq!(counts(&cluster), [2, 2, 2, 2, 2, 0]);
    set_image(&cluster, "two");
    cluster.run().await;
    assert_eq!(pods(&cluster), "n1=two n2=one");
    cluster.pass(25).await;
    assert_eq!(pods(&cluster), "n1=two n2=one");
    cluster.pass(7).await;
    cluster.run().await;
    assert_eq!(pods(&cluster), "n1=two n2=two");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn history_is_kept_rolled_back_to_and_limited_ds_1() {
    let mut set = daemon_set("agent");
    set["spec"]["revisionHistoryLimit"] = json!(2);
    set["metadata"]["annotations"] = json!({"kubernetes.io/change-cause": "the first"});
    let cluster = started(&["n1", "n2"], set).await;
    let first = revisions(&cluster).remove(0);
    assert_eq!(first.metadata.annotations.as_ref().unwrap()["kubernetes.io/change-cause"], "the first");
    for image in ["two", "three"] {
        set_image(&cluster, image);
        cluster.run().await;
    }
    assert_eq!((pods(&cluster).as_str(), numbers(&cluster)), ("n1=three n2=three", vec![1, 2, 3]));

    // `kubectl rollout undo --to-revision=1` applies the revision's patch.
    let patched = |object: &Object| {
        let patched = podium::api::patch::apply_patch_value(
            Kind::DaemonSet,
            PatchType::StrategicMerge,
            &object.to_value(),
            first.data.0.clone(),
        )
        .unwrap();
        Object::from_value(Kind::DaemonSet, patched).unwrap()
    };
    let before = cluster.get::<DaemonSet>("agent");
    let wanted = patched(before.object());
    let template = wanted.get::<DaemonSet>().unwrap().spec.template.clone();
    cluster.change::<DaemonSet>("agent", |set| set.spec.template = template.clone());
    cluster.run().await;
    assert_eq!(pods(&cluster), "n1=one n2=one");
    assert_eq!(numbers(&cluster), [2, 3, 4], "the old revision has a new number");
    assert_eq!(revisions(&cluster)[2].name(), first.name());

    set_image(&cluster, "five");
    cluster.run().await;
    set_image(&cluster, "six");
    cluster.run().await;
    assert_eq!(numbers(&cluster), [4, 5, 6], "two old ones are kept");
    // A restart is a new template, too.
    cluster.change::<DaemonSet>("agent", |set| {
        let meta = set.spec.template.metadata.as_mut().unwrap();
        let at = ("kubectl.kubernetes.io/restartedAt".to_string(), "2026-11-21T00:00:00Z".to_string());
        meta.annotations = Some([at].into());
    });
    let before: Vec<String> = cluster.pods().iter().map(|p| p.uid().to_string()).collect();
    cluster.run().await;
    assert!(cluster.pods().iter().all(|p| !before.iter().any(|uid| uid == p.uid())));
    cluster.stop().await;
}

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

    // A pod whose labels no longer match is let go, and replaced.
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
