//! The Deployment page's scenarios.

mod history;
mod overlap;
mod progress;
mod updates;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use podium::api::DeleteOptions;
use podium::object::owner::controller_of;
use podium::object::{Kind, SharedObject};
use serde_json::json;

use super::cluster::{Cluster, NO_NODES, deployment, key, set_image};

const REVISION: &str = "deployment.kubernetes.io/revision";

/// Formats the `ScalingReplicaSet` events as `a:0>3`; `a` is the ReplicaSet of the first event.
fn scalings(cluster: &Cluster) -> String {
    let mut known: Vec<String> = Vec::new();
    let described = cluster.events("ScalingReplicaSet").into_iter().map(|message| {
        let words: Vec<&str> = message.split(' ').collect();
        let ["Scaled", direction, "replica", "set", name, "from", from, "to", to] = words[..] else {
            panic!("{message}")
        };
        assert_eq!(direction == "up", from.parse::<i32>().unwrap() < to.parse().unwrap(), "{message}");
        let place = known.iter().position(|k| k == name).unwrap_or_else(|| {
            known.push(name.into());
            known.len() - 1
        });
        let letter = char::from(b'a' + u8::try_from(place).unwrap());
        format!("{letter}:{from}>{to}")
    });
    described.collect::<Vec<_>>().join(" ")
}

fn annotation(meta: &ObjectMeta, name: &str) -> Option<String> {
    meta.annotations.as_ref()?.get(name).cloned()
}

/// The ReplicaSet of a revision.
fn set_of(cluster: &Cluster, revision: &str) -> SharedObject<ReplicaSet> {
    let sets = cluster.api.list_as::<ReplicaSet>(Some("default"));
    let is_it =
        |set: &SharedObject<ReplicaSet>| annotation(&set.metadata, REVISION).as_deref() == Some(revision);
    sets.into_iter().find(is_it).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_deployment_rolls_out_breaks_and_is_undone_dep_1_to_5() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(deployment("web", 3, 1, 0));
    cluster.settle().await;
    assert_eq!(cluster.sets(), "1:3/0");
    assert_eq!(
        cluster.conditions("web"),
        ["Available=False MinimumReplicasUnavailable", "Progressing=True ReplicaSetUpdated"]
    );
    cluster.run().await;
    assert_eq!(cluster.sets(), "1:3/3");
    assert_eq!(
        cluster.conditions("web"),
        ["Available=True MinimumReplicasAvailable", "Progressing=True NewReplicaSetAvailable"]
    );
    let first = cluster.api.list_as::<ReplicaSet>(None)[0].name().to_string();
    assert_eq!(cluster.events("ScalingReplicaSet"), [format!("Scaled up replica set {first} from 0 to 3")]);
    assert_eq!(cluster.events("SuccessfulCreate").len(), 3);

    cluster.change::<Deployment>("web", |d| set_image(d, "nginx:1.9.1"));
    cluster.run().await;
    assert_eq!(cluster.sets(), "1:0/0 2:3/3");

    cluster.change::<Deployment>("web", |d| set_image(d, "bad"));
    cluster.run().await;
    assert_eq!(cluster.sets(), "1:0/0 2:3/3 3:1/0", "stuck, and all of the old are still there");
    cluster.pass(602).await;
    assert_eq!(
        cluster.conditions("web"),
        ["Available=True MinimumReplicasAvailable", "Progressing=False ProgressDeadlineExceeded"]
    );

    // kubectl rollout undo: the old template comes back.
    cluster.change::<Deployment>("web", |d| set_image(d, "nginx:1.9.1"));
    cluster.run().await;
    assert_eq!(cluster.sets(), "1:0/0 3:0/0 4:3/3");
    let web = cluster.get::<Deployment>("web");
    let revision = web.metadata.annotations.as_ref().unwrap()["deployment.kubernetes.io/revision"].clone();
    assert_eq!(revision, "4");
    assert_eq!(cluster.conditions("web")[1], "Progressing=True NewReplicaSetAvailable");
    let status = web.status.as_ref().unwrap();
    assert_eq!(
        (status.replicas, status.updated_replicas, status.unavailable_replicas),
        (Some(3), Some(3), None)
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_scaled_stuck_rollout_is_split_in_proportion_dep_3() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(deployment("web", 10, 3, 2));
    cluster.run().await;
    cluster.change::<Deployment>("web", |d| set_image(d, "bad"));
    cluster.run().await;
    assert_eq!(cluster.sets(), "1:8/8 2:5/0");
    cluster.change::<Deployment>("web", |d| d.spec.replicas = Some(15));
    cluster.settle().await;
    assert_eq!(cluster.sets(), "1:11/8 2:7/0");
    cluster.run().await;
    assert_eq!(cluster.pods().len(), 18);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_deployment_scales_but_does_not_roll_dep_3() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(deployment("web", 2, 1, 0));
    cluster.run().await;
    cluster.change::<Deployment>("web", |d| {
        d.spec.paused = Some(true);
        set_image(d, "nginx:2");
    });
    cluster.run().await;
    assert_eq!(cluster.sets(), "1:2/2");
    assert_eq!(cluster.conditions("web")[1], "Progressing=Unknown DeploymentPaused");
    cluster.change::<Deployment>("web", |d| d.spec.replicas = Some(4));
    cluster.run().await;
    assert_eq!(cluster.sets(), "1:4/4");
    cluster.change::<Deployment>("web", |d| d.spec.paused = Some(false));
    cluster.run().await;
    assert_eq!(cluster.sets(), "1:0/0 2:4/4");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn recreate_waits_for_the_last_old_pod_dep_2() {
    let cluster = Cluster::start(NO_NODES);
    let mut web = deployment("web", 2, 0, 0);
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    cluster.create::<Deployment>(web);
    cluster.run().await;
    cluster.change::<Deployment>("web", |d| set_image(d, "nginx:2"));
    cluster.settle().await;
    assert_eq!(cluster.sets(), "1:0/0", "no new set while old pods terminate");
    let terminating = cluster.pods();
    assert_eq!(terminating.len(), 2);
    cluster.act_on(&terminating[0]);
    cluster.settle().await;
    assert_eq!(cluster.sets(), "1:0/0");
    cluster.act_on(&terminating[1]);
    cluster.settle().await;
    assert_eq!(cluster.sets(), "1:0/0 2:2/0");
    cluster.run().await;
    assert_eq!(cluster.sets(), "1:0/0 2:2/2");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn old_replica_sets_are_removed_beyond_the_history_limit_dep_4() {
    let cluster = Cluster::start(NO_NODES);
    let mut web = deployment("web", 1, 1, 0);
    web["spec"]["revisionHistoryLimit"] = json!(1);
    cluster.create::<Deployment>(web);
    for image in ["a", "b", "c", "d"] {
        cluster.change::<Deployment>("web", |d| set_image(d, image));
        cluster.run().await;
    }
    assert_eq!(cluster.sets(), "3:0/0 4:1/1");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn min_ready_seconds_hold_a_rollout_without_polling_rs_1() {
    let cluster = Cluster::start(NO_NODES);
    let mut web = deployment("web", 1, 1, 0);
    web["spec"]["minReadySeconds"] = json!(60);
    cluster.create::<Deployment>(web);
    cluster.run().await;
    assert_eq!(cluster.sets(), "1:1/0", "ready is not available yet");
    cluster.pass(61).await;
    assert_eq!(cluster.sets(), "1:1/1");
    let revision = cluster.api.revision();
    cluster.pass(3600).await;
    assert_eq!(cluster.api.revision(), revision, "a quiet cluster writes nothing");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_hash_that_is_taken_is_counted_as_a_collision_dep_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(deployment("web", 1, 1, 0));
    cluster.run().await;
    let taken = cluster.api.list_as::<ReplicaSet>(None)[0].name().to_string();
    // A foreign ReplicaSet takes the name that the same template would get again.
    cluster.controllers.stop_one("deployment").await;
    cluster.change::<ReplicaSet>(&taken, |set| {
        set.metadata.owner_references = None;
        set.metadata.labels = None;
    });
    cluster.controllers.start_one("deployment");
    cluster.run().await;
    let web = cluster.get::<Deployment>("web");
    assert_eq!(web.status.as_ref().unwrap().collision_count, Some(1));
    let sets = cluster.api.list_as::<ReplicaSet>(None);
    assert_eq!(sets.len(), 2);
    assert!(sets.iter().any(|s| s.name() != taken && controller_of(&s.metadata).is_some()));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_controller_does_nothing_twice_safe_6() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(deployment("web", 5, 1, 1));
    cluster.run().await;
    for name in ["deployment", "replicaset"] {
        assert!(cluster.controllers.stop_one(name).await && cluster.controllers.start_one(name));
    }
    let revision = cluster.api.revision();
    cluster.settle().await;
    assert_eq!(cluster.api.revision(), revision, "nothing to do");
    let pod = cluster.pods().remove(0);
    cluster.api.delete(Kind::Pod, &pod.key(), &DeleteOptions::default()).unwrap();
    cluster.run().await;
    assert_eq!(cluster.sets(), "1:5/5");
    assert!(cluster.api.get(Kind::Pod, &key(pod.name())).is_err());
    cluster.stop().await;
}
