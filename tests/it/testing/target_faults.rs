//! Fault objects with targets (FAULT-1) on the manual clock: created, observed through the API, expired and healed.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, ContainerStatus, Event, Node, Pod};
use podium::api::{ApiError, DeleteOptions, WriteOptions};
use podium::extension::fault::{ACTIVE, Fault, SELECTED};
use podium::extension::node_fence::NodeFence;
use podium::object::conditions;
use podium::object::pod::{Phase, condition, node_name, phase};
use podium::object::{Key, Object, SharedObject, TypedKind};
use podium::testing::Cluster;
use serde_json::{Value, json};

use super::{deployment, pod};

fn try_make<T: TypedKind>(cluster: &Cluster, mut manifest: Value) -> Result<(), ApiError> {
    if T::kind().namespaced() {
        manifest["metadata"]["namespace"] = json!("default");
    }
    let object = Object::new(T::decode(manifest).unwrap());
    cluster.api().create(object, &WriteOptions::default()).map(drop)
}

fn make<T: TypedKind>(cluster: &Cluster, manifest: Value) {
    try_make::<T>(cluster, manifest).unwrap();
}

/// Creates a fault, and waits until all its immediate effects have happened.
async fn fault(cluster: &Cluster, name: &str, spec: Value) {
    make::<Fault>(cluster, json!({"metadata": {"name": name}, "spec": spec}));
    cluster.settle().await.unwrap();
}

async fn heal(cluster: &Cluster, name: &str) {
    cluster.api().delete(Fault::kind(), &Key::new("", name), &DeleteOptions::default()).unwrap();
    cluster.settle().await.unwrap();
}

async fn pass(cluster: &Cluster, seconds: u64) {
    cluster.advance(Duration::from_secs(seconds)).await.unwrap();
}

/// `True InForce`, or the status and reason of another condition.
fn message_of(cluster: &Cluster, name: &str, type_: &str) -> String {
    let fault = cluster.api().get_as::<Fault>(&Key::new("", name)).unwrap();
    let conditions = fault.status.as_ref().and_then(|status| status.conditions.as_ref());
    let condition = conditions::get(conditions, type_);
    condition.map(|one| format!("{} {}", one.status, one.reason)).unwrap_or_default()
}

fn active(cluster: &Cluster, name: &str) -> String {
    message_of(cluster, name, ACTIVE)
}

/// The reasons of the events about an object.
fn events(cluster: &Cluster, name: &str) -> Vec<String> {
    let events = cluster.api().list_as::<Event>(None);
    let of = events.iter().filter(|event| event.involved_object.name.as_deref() == Some(name));
    let mut reasons: Vec<String> = of.filter_map(|event| event.reason.clone()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    reasons
}

fn the_pod(cluster: &Cluster, name: &str) -> SharedObject<Pod> {
    cluster.api().get_as(&Key::new("default", name)).unwrap()
}

fn container(cluster: &Cluster, name: &str) -> ContainerStatus {
    let pod = the_pod(cluster, name);
    pod.status.as_ref().and_then(|status| status.container_statuses.clone()).unwrap()[0].clone()
}

/// Why a container waits.
fn waiting_reason(cluster: &Cluster, name: &str) -> String {
    container(cluster, name).state.and_then(|state| state.waiting?.reason).unwrap_or_default()
}

fn pods(cluster: &Cluster) -> usize {
    cluster.api().list_as::<Pod>(None).len()
}

fn node_condition(cluster: &Cluster, name: &str, type_: &str) -> String {
    let node = cluster.api().get_as::<Node>(&Key::new("", name)).unwrap();
    let all = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let found = all.into_iter().flatten().find(|one| one.type_ == type_);
    found.map(|one| one.status.clone()).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_that_is_down_comes_back_with_what_the_store_knows_fault_1() {
    let cluster = Cluster::start().await.unwrap();
    fault(
        &cluster,
        "down",
        json!({"type": "Crash", "target": {"component": "scheduler"}, "duration": "30s"}),
    )
    .await;
    assert_eq!(active(&cluster, "down"), "True InForce");
    make::<Pod>(&cluster, pod("a", "Always"));
    pass(&cluster, 20).await;
    assert_eq!(node_name(&the_pod(&cluster, "a")), None);
    pass(&cluster, 15).await;
    assert_eq!(active(&cluster, "down"), "False Expired");
    assert_eq!(phase(&the_pod(&cluster, "a")), Phase::Running);
    assert_eq!(events(&cluster, "down"), ["FaultEnded", "FaultStarted"]);
    // It stays ended, and its end is reported once.
    pass(&cluster, 60).await;
    assert_eq!(events(&cluster, "down"), ["FaultEnded", "FaultStarted"]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn controllers_stand_still_and_go_on_where_they_were_fault_1() {
    let cluster = Cluster::start().await.unwrap();
    make::<Deployment>(&cluster, deployment("before", 1));
    cluster.settle().await.unwrap();
    fault(&cluster, "all", json!({"type": "Pause", "target": {"component": "controllers"}})).await;
    fault(&cluster, "one", json!({"type": "Crash", "target": {"component": "replicaset"}})).await;
    make::<Deployment>(&cluster, deployment("web", 2));
    pass(&cluster, 60).await;
    assert_eq!(pods(&cluster), 1);
    heal(&cluster, "all").await;
    assert_eq!(pods(&cluster), 1, "the Deployment's controller goes on; that of its ReplicaSet is down");
    heal(&cluster, "one").await;
    assert_eq!(pods(&cluster), 3);
    fault(&cluster, "none", json!({"type": "Crash", "target": {"component": "carpenter"}})).await;
    assert_eq!(
        (active(&cluster, "none").as_str(), message_of(&cluster, "none", SELECTED).as_str()),
        ("False NoTarget", "False NoTarget")
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kubelets_that_are_down_or_stand_still_are_noticed_and_find_their_pods_again_fault_1() {
    let cluster = Cluster::builder().hollow_nodes(1).start().await.unwrap();
    make::<Pod>(&cluster, pod("a", "Always"));
    cluster.settle().await.unwrap();
    let before = container(&cluster, "a").container_id;
    for type_ in ["Crash", "Pause"] {
        let target = json!({"component": "kubelet", "node": "hollow-00001"});
        fault(&cluster, "f", json!({"type": type_, "target": target})).await;
        assert_eq!(active(&cluster, "f"), "True InForce");
        pass(&cluster, 60).await;
        assert_eq!(node_condition(&cluster, "hollow-00001", "Ready"), "Unknown", "{type_}: no heartbeat");
        heal(&cluster, "f").await;
        pass(&cluster, 15).await;
        assert_eq!(node_condition(&cluster, "hollow-00001", "Ready"), "True", "{type_}");
        let now = container(&cluster, "a");
        assert_eq!((now.container_id, now.restart_count, now.ready), (before.clone(), 0, true), "{type_}");
    }
    // The restarted kubelet sees containers exit, and continues with the pod.
    cluster.pod("default", "a").exit_container("c", 4).await.unwrap();
    pass(&cluster, 15).await;
    let now = container(&cluster, "a");
    assert_eq!((now.restart_count, now.ready), (1, true), "{now:?}");
    cluster.stop().await;
}

/// SAFE-1: a node that is fenced during a fault does not continue pods that run on another node by then.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_fenced_during_a_fault_never_runs_an_identity_twice_fault_1_safe_5() {
    let kubelet = |node: &str| json!({"component": "kubelet", "node": node});
    for (type_, target) in [
        ("Pause", kubelet as fn(&str) -> Value),
        ("Crash", kubelet),
        ("PowerOff", |node| json!({"node": node})),
    ] {
        let cluster = Cluster::builder().hollow_nodes(2).start().await.unwrap();
        make::<StatefulSet>(
            &cluster,
            json!({"metadata": {"name": "db"}, "spec": {"replicas": 1, "serviceName": "db",
                "selector": {"matchLabels": {"app": "db"}}, "template": {"metadata": {"labels": {"app": "db"}},
                    "spec": {"containers": [{"name": "c", "image": "app"}]}}}}),
        );
        cluster.settle().await.unwrap();
        let first = node_name(&the_pod(&cluster, "db-0")).unwrap().to_owned();
        fault(&cluster, "f", json!({"type": type_, "target": target(&first)})).await;
        make::<NodeFence>(&cluster, json!({"metadata": {"name": &first}, "spec": {"reason": "a test"}}));
        pass(&cluster, 60).await;
        let second = node_name(&the_pod(&cluster, "db-0")).unwrap().to_owned();
        assert_ne!(first, second, "{type_}");
        assert_eq!(phase(&the_pod(&cluster, "db-0")), Phase::Running);
        // The fence is deleted before the fault is healed: the node stays as the fault has it.
        cluster.api().delete(NodeFence::kind(), &Key::new("", &first), &DeleteOptions::default()).unwrap();
        pass(&cluster, 90).await;
        assert_ne!(node_condition(&cluster, &first, "Ready"), "True", "{type_}");
        heal(&cluster, "f").await;
        pass(&cluster, 60).await;
        assert_eq!(node_condition(&cluster, &first, "Ready"), "True", "{type_}");
        assert_eq!(node_name(&the_pod(&cluster, "db-0")), Some(second.as_str()), "{type_}");
        assert_eq!(container(&cluster, "db-0").restart_count, 0, "{type_}");
        assert!(cluster.api().list_as::<NodeFence>(None).is_empty(), "{type_}");
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_switched_off_boots_with_its_pods_fault_1() {
    let cluster = Cluster::builder().hollow_nodes(1).start().await.unwrap();
    make::<Pod>(&cluster, pod("a", "Always"));
    cluster.settle().await.unwrap();
    let before = container(&cluster, "a").state.and_then(|state| state.running?.started_at);
    let spec = json!({"type": "PowerOff", "target": {"node": "hollow-00001"}, "duration": "90s"});
    fault(&cluster, "off", spec).await;
    assert_eq!(active(&cluster, "off"), "True InForce");
    pass(&cluster, 60).await;
    assert_eq!(node_condition(&cluster, "hollow-00001", "Ready"), "Unknown");
    pass(&cluster, 60).await;
    assert_eq!(active(&cluster, "off"), "False Expired");
    assert_eq!(node_condition(&cluster, "hollow-00001", "Ready"), "True");
    let now = container(&cluster, "a");
    let began = now.state.clone().and_then(|state| state.running?.started_at);
    assert!(now.ready && now.restart_count == 1 && began > before, "{now:?}");
    // A fault of a node that appears later starts then.
    fault(&cluster, "later", json!({"type": "PowerOff", "target": {"node": "new"}})).await;
    assert_eq!(message_of(&cluster, "later", SELECTED), "False NoTarget");
    make::<Node>(
        &cluster,
        json!({"metadata": {"name": "new", "annotations": {"podium.dev/node": "hollow"}}}),
    );
    pass(&cluster, 10).await;
    assert_eq!(active(&cluster, "later"), "True InForce");
    // The node was ready only for a moment before the fault.
    pass(&cluster, 50).await;
    assert_ne!(node_condition(&cluster, "new", "Ready"), "True");
    heal(&cluster, "later").await;
    pass(&cluster, 10).await;
    assert_eq!(node_condition(&cluster, "new", "Ready"), "True");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_container_runs_out_of_memory_once_fault_1() {
    let cluster = Cluster::start().await.unwrap();
    fault(&cluster, "oom", json!({"type": "OutOfMemory", "target": {"pod": "a", "container": "c"}})).await;
    assert_eq!(active(&cluster, "oom"), "False NoTarget", "it begins when the pod runs");
    make::<Pod>(&cluster, pod("a", "Always"));
    pass(&cluster, 5).await;
    let now = container(&cluster, "a");
    let ended = now.last_state.and_then(|state| state.terminated).unwrap();
    assert_eq!((ended.exit_code, ended.reason.as_deref()), (137, Some("OOMKilled")));
    assert_eq!(active(&cluster, "oom"), "False Done");
    pass(&cluster, 120).await;
    assert_eq!(container(&cluster, "a").restart_count, 1);
    assert_eq!(events(&cluster, "oom"), ["FaultEnded", "FaultStarted", "NoTarget"]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pulls_are_slow_or_fail_for_the_images_that_are_meant_fault_1() {
    let cluster = Cluster::start().await.unwrap();
    let slow = json!({"type": "ImagePull", "image": {"delay": "30s", "pattern": "slow*"}});
    fault(&cluster, "slow", slow).await;
    let failing = json!({"type": "ImagePull", "target": {"nodeSelector": {}}, "image": {"failing": true, "pattern": "bad"}});
    fault(&cluster, "failing", failing).await;
    for (name, image) in [("good", "good"), ("slow-1", "slow:1"), ("bad", "bad")] {
        let mut pod = pod(name, "Always");
        pod["spec"]["containers"][0]["image"] = json!(image);
        make::<Pod>(&cluster, pod);
    }
    pass(&cluster, 20).await;
    assert_eq!(phase(&the_pod(&cluster, "good")), Phase::Running);
    assert_eq!(waiting_reason(&cluster, "slow-1"), "ContainerCreating");
    assert!(["ErrImagePull", "ImagePullBackOff"].contains(&waiting_reason(&cluster, "bad").as_str()));
    pass(&cluster, 15).await;
    assert_eq!(phase(&the_pod(&cluster, "slow-1")), Phase::Running);
    heal(&cluster, "failing").await;
    pass(&cluster, 60).await;
    assert_eq!(phase(&the_pod(&cluster, "bad")), Phase::Running);
    // A pull that is in progress when the fault is healed completes at once.
    let mut pod = pod("slow-2", "Always");
    pod["spec"]["containers"][0]["image"] = json!("slow:2");
    make::<Pod>(&cluster, pod);
    pass(&cluster, 5).await;
    assert_eq!(waiting_reason(&cluster, "slow-2"), "ContainerCreating");
    heal(&cluster, "slow").await;
    pass(&cluster, 2).await;
    assert_eq!(phase(&the_pod(&cluster, "slow-2")), Phase::Running);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_is_a_condition_of_its_node_and_goes_with_the_fault_fault_1() {
    let cluster = Cluster::builder().hollow_nodes(2).start().await.unwrap();
    let spec = json!({"type": "Disk", "target": {"node": "hollow-00001"}, "disk": {"failure": "Full"}, "duration": "1m"});
    fault(&cluster, "full", spec).await;
    pass(&cluster, 30).await;
    assert_eq!(node_condition(&cluster, "hollow-00001", "DiskPressure"), "True");
    assert_eq!(node_condition(&cluster, "hollow-00002", "DiskPressure"), "False");
    // Kubernetes retains the condition for five minutes.
    pass(&cluster, 400).await;
    assert_eq!(node_condition(&cluster, "hollow-00001", "DiskPressure"), "False");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_full_store_refuses_writes_for_its_time_and_loses_nothing_fault_1() {
    let cluster = Cluster::start().await.unwrap();
    let config_map = |name: &str| json!({"metadata": {"name": name}});
    make::<ConfigMap>(&cluster, config_map("before"));
    let spec = json!({"type": "Disk", "target": {"component": "store"}, "disk": {"failure": "Full"}, "duration": "30s"});
    fault(&cluster, "full", spec).await;
    assert_eq!(active(&cluster, "full"), "True InForce");
    let refused = try_make::<ConfigMap>(&cluster, config_map("during")).unwrap_err();
    assert!(format!("{refused:?}").contains("No space left on device"), "{refused:?}");
    pass(&cluster, 60).await;
    assert_eq!(active(&cluster, "full"), "False Expired");
    make::<ConfigMap>(&cluster, config_map("after"));
    let there = |name: &str| cluster.api().get_as::<ConfigMap>(&Key::new("default", name)).is_ok();
    assert_eq!([there("before"), there("during"), there("after")], [true, false, true]);
    let for_ever = json!({"metadata": {"name": "long"}, "spec": {"type": "Disk", "target": {"component": "store"},
        "disk": {"failure": "Failing"}, "duration": "2h"}});
    assert!(
        try_make::<Fault>(&cluster, for_ever).is_err(),
        "the fault could not be healed while the store fails"
    );
    // A store in memory has no disk that could be slow.
    let slow =
        json!({"type": "Disk", "target": {"component": "store"}, "disk": {"failure": "Slow", "delay": "1s"}});
    fault(&cluster, "slow", slow).await;
    assert_eq!(active(&cluster, "slow"), "False NoDisk");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn clocks_are_off_for_those_alone_that_are_meant_fault_1() {
    let cluster = Cluster::builder().hollow_nodes(2).start().await.unwrap();
    let off = |node: &str| {
        let lease = cluster.api().get_as::<Lease>(&Key::new("kube-node-lease", node)).unwrap();
        let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.clone()).unwrap();
        cluster.now().duration_since(renewed.0).as_secs() / 60
    };
    fault(
        &cluster,
        "skew",
        json!({"type": "ClockSkew", "target": {"node": "hollow-00001"}, "skew": {"by": "-5m"}}),
    )
    .await;
    let ahead = json!({"type": "ClockSkew", "target": {"component": "controllers"}, "skew": {"by": "1h"}});
    fault(&cluster, "ahead", ahead).await;
    pass(&cluster, 20).await;
    assert_eq!([off("hollow-00001"), off("hollow-00002")], [5, 0]);
    make::<Deployment>(&cluster, deployment("web", 1));
    cluster.settle().await.unwrap();
    let web = cluster.api().get_as::<Deployment>(&Key::new("default", "web")).unwrap();
    let changed = web.status.as_ref().and_then(|status| status.conditions.clone()).unwrap()[0].clone();
    let ahead = changed.last_transition_time.unwrap().0.duration_since(cluster.now());
    assert!(ahead > SignedDuration::from_mins(59), "{ahead:?}");
    let made = web.metadata.creation_timestamp.clone().unwrap().0.duration_since(cluster.now());
    assert!(made < SignedDuration::from_mins(1), "the API goes by its own clock");
    // The times in the kubelet's statuses are of its clock, but its timers are not.
    let bound = |name: &str, node: &str| {
        let mut pod = pod(name, "Always");
        pod["spec"]["nodeName"] = json!(node);
        pod
    };
    make::<Pod>(&cluster, bound("behind", "hollow-00001"));
    make::<Pod>(&cluster, bound("right", "hollow-00002"));
    cluster.settle().await.unwrap();
    pass(&cluster, 5).await;
    let minutes = |at: jiff::Timestamp| cluster.now().duration_since(at).as_secs() / 60;
    let message_of = |name: &str| {
        let pod = the_pod(&cluster, name);
        let status = pod.status.clone().unwrap();
        let ready = status.conditions.iter().flatten().find(|one| one.type_ == "Ready").cloned().unwrap();
        let started = container(&cluster, name).state.unwrap().running.unwrap().started_at.unwrap();
        let events = cluster.api().list_as::<Event>(None);
        let event = events.iter().find(|event| {
            event.involved_object.name.as_deref() == Some(name) && event.reason.as_deref() == Some("Started")
        });
        let event = event.and_then(|event| event.last_timestamp.clone().map(|at| at.0)).unwrap();
        [status.start_time.unwrap().0, ready.last_transition_time.unwrap().0, started.0, event].map(minutes)
    };
    assert_eq!(message_of("behind"), [5, 5, 5, 5]);
    assert_eq!(message_of("right"), [0, 0, 0, 0]);
    let before = container(&cluster, "behind").state.unwrap();
    heal(&cluster, "skew").await;
    pass(&cluster, 20).await;
    assert_eq!(off("hollow-00001"), 0);
    assert_eq!(container(&cluster, "behind").state.unwrap(), before, "reported times stay");
    assert!(condition(&the_first_pod(&cluster), "Ready").is_some());
    cluster.stop().await;
}

fn the_first_pod(cluster: &Cluster) -> SharedObject<Pod> {
    cluster.api().list_as::<Pod>(Some("default")).remove(0)
}

/// The webhook's failure policy decides about a call without a response.
#[tokio::test(start_paused = true)]
async fn a_webhook_that_hangs_fails_as_its_policy_says_fault_1() {
    let cluster = Cluster::start().await.unwrap();
    for (name, policy) in [("strict", "Fail"), ("lenient", "Ignore")] {
        let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
        make::<ValidatingWebhookConfiguration>(
            &cluster,
            json!({"metadata": {"name": name}, "webhooks": [{"name": format!("{name}.example.com"),
                "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 1, "failurePolicy": policy,
                "rules": [rule], "matchConditions": [{"name": "mine", "expression": format!("object.metadata.name.startsWith('{name}')")}],
                "clientConfig": {"url": "https://127.0.0.1:1/"}}]}),
        );
    }
    let create = |name: &str| {
        let made = try_make::<ConfigMap>(&cluster, json!({"metadata": {"name": name}}));
        made.map_err(|error| format!("{error:?}"))
    };
    let refused = create("strict-1").unwrap_err();
    assert!(refused.contains("refused"), "the webhook's port is closed: {refused}");
    for name in ["strict", "lenient"] {
        fault(&cluster, name, json!({"type": "Webhook", "target": {"webhook": name}})).await;
        assert_eq!(active(&cluster, name), "True InForce");
    }
    let refused = create("strict-2").unwrap_err();
    assert!(refused.contains("context deadline exceeded"), "{refused}");
    create("lenient-2").unwrap();
    heal(&cluster, "strict").await;
    let refused = create("strict-3").unwrap_err();
    assert!(refused.contains("refused"), "{refused}");
    cluster.stop().await;
}
