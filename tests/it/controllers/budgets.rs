//! Disruption budgets over pods of all owners (PDB-1), on virtual time.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Event, Pod, ReplicationController};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use podium::api::DeleteOptions;
use serde_json::{Value, json};

use super::cluster::{Cluster, NO_NODES, deployment, key};

#[expect(clippy::needless_pass_by_value, reason = "a literal reads best at the call")]
pub(super) fn budget(name: &str, spec: Value) -> Value {
    let mut budget = json!({"metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}}});
    budget["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    budget
}

/// Returns the expected, desired healthy, current healthy and allowed pods of a budget.
pub(super) fn counts(cluster: &Cluster, name: &str) -> (i32, i32, i32, i32) {
    let status = cluster.get::<PodDisruptionBudget>(name).status.clone().unwrap();
    (
        status.expected_pods.unwrap_or(0),
        status.desired_healthy.unwrap_or(0),
        status.current_healthy.unwrap_or(0),
        status.disruptions_allowed.unwrap_or(0),
    )
}

/// A ready pod `app=web` under this owner.
pub(super) fn pod(cluster: &Cluster, name: &str, owner: Option<&Value>) {
    cluster.create::<Pod>(
        json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": "web"},
            "ownerReferences": owner.map(|o| vec![o])},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}}),
    );
    cluster.set_ready(&cluster.get::<Pod>(name), true);
}

pub(super) fn owner(api_version: &str, kind: &str, uid: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": "web", "uid": uid, "controller": true})
}

#[tokio::test(start_paused = true)]
async fn a_budget_asks_every_owner_with_a_scale_pdb_1() {
    let cluster = Cluster::start(&[
        "podgc", "nodelifecycle", "statefulset", "replicationcontroller", "garbagecollector",
    ]);
    cluster.create::<PodDisruptionBudget>(budget("b", json!({"maxUnavailable": 2})));
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let set = cluster.create::<StatefulSet>(json!({"metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 4, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}}, "template": template}}));
    for name in ["web-0", "web-1", "web-2"] {
        pod(&cluster, name, Some(&owner("apps/v1", "StatefulSet", set.uid())));
    }
    cluster.settle().await;
    assert_eq!(counts(&cluster, "b"), (4, 2, 3, 1), "of the four that should be");
    cluster.change::<StatefulSet>("web", |set| set.spec.replicas = Some(3));
    cluster.settle().await;
    assert_eq!(counts(&cluster, "b"), (3, 1, 3, 2));

    let controller = cluster.create::<ReplicationController>(json!({
        "metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 5, "template": template}}));
    pod(&cluster, "rc", Some(&owner("v1", "ReplicationController", controller.uid())));
    cluster.settle().await;
    assert_eq!(counts(&cluster, "b"), (8, 6, 4, 0), "together with the other owner's");

    pod(&cluster, "bare", None);
    cluster.settle().await;
    assert_eq!(counts(&cluster, "b"), (8, 6, 5, 0), "a bare pod is not expected, but counts as healthy");
    assert!(cluster.events("UnmanagedPods")[0].starts_with("Pods selected by this PodDisruptionBudget"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_cannot_be_counted_allows_nothing_and_says_why_pdb_1() {
    for (api_version, kind, why) in [
        ("batch/v1", "Job", "jobs.batch does not implement the scale subresource"),
        ("apps/v1", "DaemonSet", "daemonsets.apps does not implement the scale subresource"),
        ("example.com/v1", "Gadget", "no matches for kind \"Gadget\" in version \"example.com/v1\""),
        ("apps/v1", "ReplicaSet", "found no controllers for pod \"p\""),
    ] {
        let cluster = Cluster::start(&["podgc", "nodelifecycle", "garbagecollector"]);
        pod(&cluster, "p", Some(&owner(api_version, kind, "no-such-uid")));
        cluster.create::<PodDisruptionBudget>(budget("b", json!({"minAvailable": "50%"})));
        cluster.create::<PodDisruptionBudget>(budget("counted", json!({"minAvailable": 0})));
        cluster.settle().await;
        let status = cluster.get::<PodDisruptionBudget>("b").status.clone().unwrap();
        let condition = &status.conditions.as_ref().unwrap()[0];
        assert_eq!(
            (condition.type_.as_str(), condition.status.as_str(), condition.reason.as_str()),
            ("DisruptionAllowed", "False", "SyncFailed")
        );
        assert_eq!((condition.message.as_str(), status.disruptions_allowed), (why, Some(0)));
        let event = format!("Failed to calculate the number of expected pods: {why}");
        assert_eq!(cluster.events("CalculateExpectedPodCountFailed"), [event]);
        assert_eq!(counts(&cluster, "counted"), (1, 0, 1, 1), "a number needs no owner");
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_budgets_on_one_pod_are_refused_pdb_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(deployment("web", 2, 1, 0));
    for name in ["a", "b"] {
        cluster.create::<PodDisruptionBudget>(budget(name, json!({"maxUnavailable": 1})));
    }
    cluster.run().await;
    let pod = cluster.pods().remove(0);
    let refused = cluster.api.evict(&pod.key(), &DeleteOptions::default()).unwrap_err();
    assert_eq!(refused.code(), 500);
    let why =
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    assert!(refused.to_string().contains(why), "{refused}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_comes_to_nothing_is_given_back_pdb_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(deployment("web", 3, 1, 0));
    cluster.create::<PodDisruptionBudget>(budget("b", json!({"maxUnavailable": 1})));
    cluster.run().await;
    assert_eq!(counts(&cluster, "b"), (3, 2, 3, 1));
    // The API spent from the budget, and crashed before it deleted the pod.
    let pod = cluster.pods().remove(0);
    let now = Time(cluster.api.clock().now());
    cluster
        .api
        .modify_status::<PodDisruptionBudget>(&key("b"), |budget| {
            let status = budget.status.as_mut().unwrap();
            status.disruptions_allowed = Some(0);
            status.disrupted_pods = Some([(pod.name().to_string(), now.clone())].into());
            Ok(())
        })
        .unwrap();
    cluster.settle().await;
    assert_eq!(counts(&cluster, "b"), (3, 2, 2, 0), "it counts as lost");
    cluster.pass(115).await;
    assert_eq!(counts(&cluster, "b"), (3, 2, 2, 0));
    cluster.pass(6).await;
    assert_eq!(counts(&cluster, "b"), (3, 2, 3, 1), "after two minutes it is there again");
    let events = cluster.api.list_as::<Event>(Some("default"));
    let event = events.iter().find(|e| e.reason.as_deref() == Some("NotDeleted")).unwrap();
    assert_eq!(
        event.message.as_deref(),
        Some("Pod was expected by PDB default/b to be deleted but it wasn't")
    );
    assert_eq!(event.involved_object.name.as_deref(), Some(pod.name()));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn involuntary_disruptions_use_up_a_budget_and_its_policy_decides_about_unhealthy_pods_pdb_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(deployment("web", 3, 1, 0));
    cluster.create::<PodDisruptionBudget>(budget("b", json!({"minAvailable": 2})));
    cluster.run().await;
    let pods = cluster.pods();
    cluster.set_ready(&pods[0], false);
    cluster.settle().await;
    assert_eq!(counts(&cluster, "b"), (3, 2, 2, 0), "an involuntary disruption uses the budget up");
    assert_eq!(cluster.api.evict(&pods[1].key(), &DeleteOptions::default()).unwrap_err().code(), 429);
    cluster.api.evict(&pods[0].key(), &DeleteOptions::default()).unwrap();

    cluster.set_ready(&pods[1], false);
    cluster.settle().await;
    let refused = cluster.api.evict(&pods[1].key(), &DeleteOptions::default()).unwrap_err();
    assert_eq!(refused.code(), 429, "too few pods are healthy: not even unhealthy ones are evicted");
    cluster.change::<PodDisruptionBudget>("b", |budget| {
        let spec = budget.spec.as_mut().unwrap();
        spec.unhealthy_pod_eviction_policy = Some("AlwaysAllow".into());
    });
    cluster.settle().await;
    cluster.api.evict(&pods[1].key(), &DeleteOptions::default()).unwrap();
    cluster.stop().await;
}
