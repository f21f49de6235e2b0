//! The progress of a rollout: progressing, complete, failed, paused; a deadline that expires and starts again.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition};
use k8s_openapi::api::core::v1::ResourceQuota;
use podium::object::pod::is_ready;
use serde_json::json;

use super::super::cluster::{Cluster, NO_NODES, deployment, set_image};

fn condition(cluster: &Cluster, type_: &str) -> Option<DeploymentCondition> {
    let web = cluster.get::<Deployment>("web");
    let conditions = web.status.as_ref()?.conditions.clone()?;
    conditions.into_iter().find(|c| c.type_.as_deref() == Some(type_))
}

/// Formats the condition Progressing as `status reason: message`, with the ReplicaSet's name as `SET`.
fn progressing(cluster: &Cluster) -> String {
    let Some(condition) = condition(cluster, "Progressing") else { return "none".into() };
    let message = condition.message.unwrap();
    let quoted = message.split('"').nth(1).filter(|name| name.starts_with("web-")).unwrap_or("?");
    format!("{} {}: {}", condition.status.unwrap(), condition.reason.unwrap(), message.replace(quoted, "SET"))
}

const TIMED_OUT: &str = r#"False ProgressDeadlineExceeded: ReplicaSet "SET" has timed out progressing."#;
const UPDATED: &str = r#"True ReplicaSetUpdated: ReplicaSet "SET" is progressing."#;
const COMPLETE: &str = r#"True NewReplicaSetAvailable: ReplicaSet "SET" has successfully progressed."#;

#[tokio::test(start_paused = true)]
async fn a_rollout_tells_each_step_it_makes_dep_5() {
    let cluster = Cluster::start(NO_NODES);
    cluster.controllers.stop_one("replicaset").await;
    cluster.create::<Deployment>(deployment("web", 1, 1, 0));
    cluster.settle().await;
    assert_eq!(progressing(&cluster), r#"True NewReplicaSetCreated: Created new replica set "SET""#);
    cluster.controllers.start_one("replicaset");
    cluster.settle().await;
    assert_eq!(progressing(&cluster), UPDATED);
    cluster.run().await;
    assert_eq!(progressing(&cluster), COMPLETE);
    let available = condition(&cluster, "Available").unwrap();
    assert_eq!(available.message.as_deref(), Some("Deployment has minimum availability."));
    let began = condition(&cluster, "Progressing").unwrap().last_transition_time;
    // A complete rollout stays complete: a pod that fails later is no rollout and has no deadline.
    cluster.pass(60).await;
    cluster.set_ready(&cluster.pods()[0], false);
    cluster.pass(3600).await;
    assert_eq!(progressing(&cluster), COMPLETE);
    let available = condition(&cluster, "Available").unwrap();
    assert_eq!(available.message.as_deref(), Some("Deployment does not have minimum availability."));
    assert_eq!(condition(&cluster, "Progressing").unwrap().last_transition_time, began);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_bit_of_progress_moves_the_deadline_dep_5() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(deployment("web", 2, 1, 0));
    cluster.settle().await;
    cluster.pass(590).await;
    let pods = cluster.pods();
    cluster.set_ready(&pods[0], true);
    cluster.pass(20).await;
    assert_eq!(progressing(&cluster), UPDATED, "the deadline counts from the pod that became ready");
    cluster.pass(570).await;
    assert_eq!(progressing(&cluster), UPDATED);
    cluster.pass(15).await;
    assert_eq!(progressing(&cluster), TIMED_OUT);
    // The deadline is only reported: nothing is undone, and a rollout that continues after all completes.
    assert_eq!(cluster.sets(), "1:2/1");
    cluster.set_ready(&pods[1], true);
    cluster.settle().await;
    assert_eq!(progressing(&cluster), COMPLETE);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_full_quota_fails_a_rollout_and_room_completes_it_dep_5() {
    let cluster = Cluster::start(NO_NODES);
    let quota = |pods: &str| json!({"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": pods}}});
    cluster.create::<ResourceQuota>(quota("2"));
    cluster.create::<Deployment>(deployment("web", 3, 1, 0));
    cluster.run().await;
    let conditions = ["Available=False MinimumReplicasUnavailable", "Progressing=True ReplicaSetUpdated"];
    assert_eq!(cluster.conditions("web"), [conditions[0], conditions[1], "ReplicaFailure=True FailedCreate"]);
    let message = condition(&cluster, "ReplicaFailure").unwrap().message.unwrap();
    let expected = "is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2";
    assert!(message.starts_with("pods \"web-") && message.ends_with(expected), "{message}");
    cluster.pass(601).await;
    assert_eq!(progressing(&cluster), TIMED_OUT);
    assert_eq!(cluster.conditions("web")[2], "ReplicaFailure=True FailedCreate");

    let more = serde_json::from_value::<ResourceQuota>(quota("3")).unwrap();
    cluster.change::<ResourceQuota>("q", |q| q.spec.clone_from(&more.spec));
    cluster.pass(1000).await;
    cluster.run().await;
    assert_eq!(progressing(&cluster), COMPLETE);
    assert_eq!(
        cluster.conditions("web"),
        ["Available=True MinimumReplicasAvailable", "Progressing=True NewReplicaSetAvailable"]
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_stops_the_clock_and_gathers_changes_dep_3_dep_5() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(deployment("web", 2, 1, 0));
    cluster.run().await;
    cluster.change::<Deployment>("web", |d| set_image(d, "bad"));
    cluster.run().await;
    cluster.pass(500).await;
    let pause = |paused: bool| cluster.change::<Deployment>("web", |d| d.spec.paused = Some(paused));
    pause(true);
    cluster.pass(3600).await;
    assert_eq!(progressing(&cluster), "Unknown DeploymentPaused: Deployment is paused");
    pause(false);
    cluster.settle().await;
    assert_eq!(progressing(&cluster), "Unknown DeploymentResumed: Deployment is resumed");
    cluster.pass(590).await;
    assert_eq!(progressing(&cluster), "Unknown DeploymentResumed: Deployment is resumed", "a whole deadline");
    cluster.pass(15).await;
    assert_eq!(progressing(&cluster), TIMED_OUT);
    // A pause after the deadline does not change that.
    pause(true);
    cluster.run().await;
    assert_eq!(progressing(&cluster), TIMED_OUT);
    // Several changes during a pause become one rollout.
    cluster.change::<Deployment>("web", |d| set_image(d, "two"));
    cluster.settle().await;
    cluster.change::<Deployment>("web", |d| {
        let resources = json!({"limits": {"cpu": "200m", "memory": "512Mi"}});
        let spec = d.spec.template.spec.as_mut().unwrap();
        spec.containers[0].resources = serde_json::from_value(resources).unwrap();
    });
    cluster.run().await;
    assert_eq!(cluster.sets(), "1:2/2 2:1/0");
    pause(false);
    cluster.run().await;
    assert_eq!(cluster.sets(), "1:0/0 2:0/0 3:2/2");
    assert_eq!(progressing(&cluster), COMPLETE);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_deadline_there_is_no_progress_to_tell_of_dep_5() {
    let cluster = Cluster::start(NO_NODES);
    let mut web = deployment("web", 2, 1, 0);
    web["spec"]["progressDeadlineSeconds"] = json!(i32::MAX);
    cluster.create::<Deployment>(web);
    cluster.run().await;
    cluster.change::<Deployment>("web", |d| set_image(d, "bad"));
    cluster.pass(7200).await;
    assert_eq!(cluster.conditions("web"), ["Available=True MinimumReplicasAvailable"]);
    // A deadline is set in the middle of the rollout.
    cluster.change::<Deployment>("web", |d| d.spec.progress_deadline_seconds = Some(60));
    cluster.settle().await;
    assert_eq!(progressing(&cluster), r#"True FoundNewReplicaSet: Found new replica set "SET""#);
    cluster.pass(62).await;
    assert_eq!(progressing(&cluster), TIMED_OUT);
    assert_eq!(cluster.pods().iter().filter(|p| is_ready(p)).count(), 2, "the old ones serve on");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_replica_set_is_reported_and_retried_dep_5() {
    let cluster = Cluster::start(NO_NODES);
    let quota = |sets: &str| {
        json!({"metadata": {"name": "q", "namespace": "default"},
            "spec": {"hard": {"count/replicasets.apps": sets}}})
    };
    cluster.create::<ResourceQuota>(quota("1"));
    cluster.create::<Deployment>(deployment("web", 1, 1, 0));
    cluster.run().await;
    cluster.change::<Deployment>("web", |d| set_image(d, "two"));
    cluster.pass(1).await;
    assert_eq!(cluster.sets(), "1:1/1", "the serving pod is left alone");
    assert_eq!(
        cluster.conditions("web"),
        ["Available=True MinimumReplicasAvailable", "Progressing=False ReplicaSetCreateError"]
    );
    let message = condition(&cluster, "Progressing").unwrap().message.unwrap();
    let parts = message.split("replicasets.apps \"").collect::<Vec<_>>();
    assert!(parts[0].starts_with("Failed to create new replica set \"web-"), "{message}");
    assert!(
        parts[1].ends_with(
            "\" is forbidden: exceeded quota: q, requested: count/replicasets.apps=1, \
             used: count/replicasets.apps=1, limited: count/replicasets.apps=1"
        ),
        "{message}"
    );
    assert_eq!(cluster.events("ReplicaSetCreateError")[0], message);

    let more = serde_json::from_value::<ResourceQuota>(quota("2")).unwrap();
    cluster.change::<ResourceQuota>("q", |q| q.spec.clone_from(&more.spec));
    cluster.pass(1000).await;
    cluster.run().await;
    assert_eq!((cluster.sets().as_str(), progressing(&cluster).as_str()), ("1:0/0 2:1/1", COMPLETE));
    cluster.stop().await;
}
