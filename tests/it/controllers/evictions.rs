//! The pages "Disruptions" and "API-initiated Eviction" (PDB-1), on virtual time: the responses to evictions, and the
//! drain of a cluster of three nodes as far as a budget allows it.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use podium::api::{ApiError, DeleteOptions};
use podium::object::pod::{condition, is_ready};
use podium::object::{Kind, Revision, SharedObject};
use serde_json::json;

use super::budgets::{budget, counts, owner, pod};
use super::cluster::{Cluster, NO_NODES, deployment, key};

/// The message for an eviction that must wait, and the seconds until the next try.
fn refusal(cluster: &Cluster, pod: &str) -> (String, i32) {
    match cluster.api.evict(&key(pod), &DeleteOptions::default()) {
        Err(ApiError::TooManyRequests { message, causes, retry_after_seconds }) => {
            assert_eq!(message, "Cannot evict pod as it would violate the pod's disruption budget.");
            assert_eq!((causes.len(), causes[0].reason.as_str()), (1, "DisruptionBudget"));
            (causes[0].message.clone(), retry_after_seconds)
        }
        other => panic!("{other:?}"),
    }
}

fn on_node(cluster: &Cluster, node: &str) -> Vec<SharedObject<Pod>> {
    let mut pods = cluster.pods();
    pods.retain(|p| p.spec.as_ref().unwrap().node_name.as_deref() == Some(node));
    pods
}

/// Binds the Deployment's unscheduled pod to this node.
fn bind_to(cluster: &Cluster, node: &str) -> SharedObject<Pod> {
    let waiting = cluster.pods().into_iter().find(|p| p.spec.as_ref().unwrap().node_name.is_none()).unwrap();
    cluster.api.bind(&waiting.key(), waiting.uid(), node).unwrap();
    waiting
}

/// The kubelet ends every terminating pod.
async fn end_terminating(cluster: &Cluster) {
    for pod in cluster.pods().iter().filter(|p| p.metadata.deletion_timestamp.is_some()) {
        cluster.act_on(pod);
    }
    cluster.settle().await;
}

/// The page's walk: pods a, b and c of one application, x of none, and two of three nodes to be drained.
#[tokio::test(start_paused = true)]
async fn nodes_are_drained_as_fast_as_the_budget_lets_pods_go_pdb_1_node_3() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<PodDisruptionBudget>(budget("b", json!({"minAvailable": 2})));
    cluster.create::<Deployment>(deployment("web", 3, 1, 0));
    cluster.settle().await;
    for node in ["node-1", "node-2", "node-3"] {
        let placed = bind_to(&cluster, node);
        cluster.set_ready(&placed, true);
    }
    let other = json!({"metadata": {"name": "x", "namespace": "default"},
        "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]}});
    cluster.create::<Pod>(other);
    cluster.set_ready(&cluster.get::<Pod>("x"), true);
    cluster.settle().await;
    assert_eq!(counts(&cluster, "b"), (3, 2, 3, 1), "all are available");

    let (b, c) = (on_node(&cluster, "node-2").remove(0), on_node(&cluster, "node-3").remove(0));
    for going in on_node(&cluster, "node-1") {
        cluster.api.evict(&going.key(), &DeleteOptions::default()).unwrap();
    }
    let needs =
        |healthy: i32| format!("The disruption budget b needs 2 healthy pods and has {healthy} currently");
    cluster.settle().await;
    assert_eq!(counts(&cluster, "b"), (4, 2, 2, 0), "the one that goes is still there");
    // The replacement is on node-2 and still starts when that node is drained.
    let d = bind_to(&cluster, "node-2");
    end_terminating(&cluster).await;
    assert!(on_node(&cluster, "node-1").is_empty(), "the first node is empty: x needed no leave");
    assert_eq!(refusal(&cluster, b.name()), (needs(2), 0));
    cluster.set_ready(&d, true);
    cluster.settle().await;
    cluster.api.evict(&b.key(), &DeleteOptions::default()).unwrap();
    cluster.settle().await;
    assert_eq!(refusal(&cluster, d.name()), (needs(2), 0), "one after another");
    // Its replacement fits on no node: the drain waits, regardless of the number of tries.
    end_terminating(&cluster).await;
    for _ in 0..3 {
        cluster.pass(300).await;
        assert_eq!(refusal(&cluster, d.name()), (needs(2), 0));
    }
    assert!(is_ready(&cluster.get::<Pod>(c.name())) && is_ready(&cluster.get::<Pod>(d.name())));
    let waiting = cluster.pods().into_iter().filter(|p| p.spec.as_ref().unwrap().node_name.is_none());
    assert_eq!(waiting.count(), 1);
    // A node is added.
    let e = bind_to(&cluster, "node-4");
    cluster.set_ready(&e, true);
    cluster.settle().await;
    cluster.api.evict(&d.key(), &DeleteOptions::default()).unwrap();
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_eviction_takes_one_disruption_and_marks_the_pod_pdb_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(deployment("web", 3, 1, 0));
    cluster.create::<PodDisruptionBudget>(budget("b", json!({"maxUnavailable": 1})));
    cluster.run().await;
    let pods = cluster.pods();
    let dry = DeleteOptions { dry_run: true, ..DeleteOptions::default() };
    let revision = cluster.api.revision();
    cluster.api.evict(&pods[0].key(), &dry).unwrap();
    assert_eq!(cluster.api.revision(), revision, "a dry run takes nothing");
    let other = DeleteOptions::uid("another");
    assert_eq!(cluster.api.evict(&pods[0].key(), &other).unwrap_err().code(), 409);
    assert_eq!(cluster.api.evict(&key("no-such-pod"), &DeleteOptions::default()).unwrap_err().code(), 404);

    cluster.api.evict(&pods[0].key(), &DeleteOptions::default()).unwrap();
    // The API has updated the budget before any controller has seen the eviction.
    let status = cluster.get::<PodDisruptionBudget>("b").status.clone().unwrap();
    assert_eq!(status.disruptions_allowed, Some(0));
    assert!(status.disrupted_pods.as_ref().unwrap().contains_key(pods[0].name()));
    let allowed = &status.conditions.as_ref().unwrap()[0];
    assert_eq!((allowed.status.as_str(), allowed.reason.as_str()), ("False", "InsufficientPods"));
    let evicted = cluster.get::<Pod>(pods[0].name());
    let target = condition(&evicted, "DisruptionTarget").unwrap();
    assert_eq!(
        (target.status.as_str(), target.reason.as_deref(), target.message.as_deref()),
        ("True", Some("EvictionByEvictionAPI"), Some("Eviction API: evicting"))
    );
    assert_eq!(evicted.metadata.deletion_grace_period_seconds, Some(30), "it has its grace");
    refusal(&cluster, pods[1].name());
    // The eviction of a pod that is terminating, has ended or never ran needs no budget.
    cluster.api.evict(&pods[0].key(), &DeleteOptions::default()).unwrap();
    cluster.fail(&pods[1]);
    cluster.api.evict(&pods[1].key(), &DeleteOptions::default()).unwrap();
    cluster.settle().await;
    let pending = cluster.pods().into_iter().find(|p| p.spec.as_ref().unwrap().node_name.is_none()).unwrap();
    cluster.api.evict(&pending.key(), &DeleteOptions::default()).unwrap();
    refusal(&cluster, pods[2].name());
    cluster.stop().await;
}

/// The mark of the eviction is a new version of the pod, which the eviction then deletes.
#[tokio::test(start_paused = true)]
async fn an_eviction_of_one_version_of_a_pod_spares_any_other_version_pdb_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(deployment("web", 2, 1, 0));
    cluster.create::<PodDisruptionBudget>(budget("b", json!({"maxUnavailable": 1})));
    cluster.run().await;
    let pod = cluster.pods().remove(0);
    let of_version = |version| DeleteOptions { resource_version: Some(version), ..DeleteOptions::default() };
    let revision = cluster.api.revision();
    assert_eq!(cluster.api.evict(&pod.key(), &of_version(Revision(1))).unwrap_err().code(), 409);
    let dry = DeleteOptions { dry_run: true, ..of_version(pod.revision()) };
    cluster.api.evict(&pod.key(), &dry).unwrap();
    assert_eq!(cluster.api.revision(), revision, "neither the budget nor the pod has changed");

    cluster.api.evict(&pod.key(), &of_version(pod.revision())).unwrap();
    let evicted = cluster.get::<Pod>(pod.name());
    assert!(evicted.metadata.deletion_timestamp.is_some());
    assert!(condition(&evicted, "DisruptionTarget").is_some());
    assert_eq!(cluster.get::<PodDisruptionBudget>("b").status.as_ref().unwrap().disruptions_allowed, Some(0));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_says_what_is_wrong_with_the_budget_pdb_1() {
    // The controller has not counted yet.
    let cluster = Cluster::start(&["podgc", "nodelifecycle", "disruption", "garbagecollector"]);
    cluster.create::<PodDisruptionBudget>(budget("b", json!({"maxUnavailable": "50%"})));
    pod(&cluster, "p", Some(&owner("batch/v1", "Job", "no-such-uid")));
    let processing = "The disruption budget b is still being processed by the server.";
    assert_eq!(refusal(&cluster, "p"), (processing.into(), 10));
    // A budget counts even without pods; it cannot count a Job's pod, because a Job has no scale.
    let at_once = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    cluster.api.delete(Kind::Pod, &key("p"), &at_once).unwrap();
    cluster.controllers.start_one("disruption");
    cluster.settle().await;
    pod(&cluster, "p", Some(&owner("batch/v1", "Job", "no-such-uid")));
    cluster.settle().await;
    let failed = "The disruption budget b does not allow evicting pods currently because it failed sync: \
                  jobs.batch does not implement the scale subresource";
    assert_eq!(refusal(&cluster, "p"), (failed.into(), 0));
    // Two budgets are a server error, with exactly this message.
    cluster.create::<PodDisruptionBudget>(budget("c", json!({"minAvailable": 1})));
    let two = cluster.api.evict(&key("p"), &DeleteOptions::default()).unwrap_err().to_status();
    assert_eq!((two.code, two.reason), (Some(500), None));
    let why =
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    assert_eq!(two.message.as_deref(), Some(why));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_says_which_pods_it_cannot_count_pdb_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<PodDisruptionBudget>(budget("b", json!({"minAvailable": "100%"})));
    cluster.settle().await;
    assert_eq!(cluster.events("NoPods"), ["No matching pods found"]);
    assert_eq!(counts(&cluster, "b"), (0, 0, 0, 0));
    pod(&cluster, "bare", None);
    cluster.settle().await;
    assert_eq!(
        cluster.events("UnmanagedPods"),
        ["Pods selected by this PodDisruptionBudget (selector: \
          &LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{},}) \
          were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may \
          result in undefined behavior. To account for these pods please \
          set \".spec.minAvailable\" field of the PDB to an integer value."]
    );
    // Percentages round up: of seven, half are four.
    cluster.create::<Deployment>(deployment("web", 7, 1, 0));
    cluster.change::<PodDisruptionBudget>("b", |b| {
        b.spec.as_mut().unwrap().min_available =
            Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String("50%".into()));
    });
    cluster.run().await;
    assert_eq!(counts(&cluster, "b"), (7, 4, 8, 4));
    cluster.stop().await;
}

/// The end of the part "Pod disruption conditions".
#[tokio::test(start_paused = true)]
async fn a_disruption_that_comes_to_nothing_is_taken_back_pdb_1() {
    let cluster = Cluster::start(NO_NODES);
    let mark = |name: &str, reason: &str| {
        pod(&cluster, name, None);
        let now = cluster.api.clock().time();
        let target = json!({"type": "DisruptionTarget", "status": "True", "reason": reason,
            "lastTransitionTime": now});
        cluster
            .api
            .modify_status::<Pod>(&key(name), |pod| {
                let conditions = pod.status.as_mut().unwrap().conditions.as_mut().unwrap();
                conditions.push(serde_json::from_value(target.clone()).unwrap());
                Ok(())
            })
            .unwrap();
    };
    mark("preempted", "PreemptionByScheduler");
    mark("by-node", "TerminationByKubelet");
    mark("goes", "EvictionByEvictionAPI");
    mark("ended", "DeletionByTaintManager");
    cluster.api.delete(Kind::Pod, &key("goes"), &DeleteOptions::default()).unwrap();
    cluster
        .api
        .modify_status::<Pod>(&key("ended"), |pod| {
            pod.status.as_mut().unwrap().phase = Some("Failed".into());
            Ok(())
        })
        .unwrap();
    let conditions = || {
        ["preempted", "by-node", "goes", "ended"].map(|name| {
            let pod = cluster.get::<Pod>(name);
            let target = condition(&pod, "DisruptionTarget").unwrap();
            (target.status.clone(), target.reason.is_some())
        })
    };
    let stands = || ("True".to_string(), true);
    cluster.pass(115).await;
    assert_eq!(conditions(), [stands(), stands(), stands(), stands()]);
    cluster.pass(6).await;
    assert_eq!(
        conditions(),
        [("False".to_string(), false), stands(), stands(), stands()],
        "two minutes later"
    );
    cluster.stop().await;
}
