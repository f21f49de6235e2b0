//! Revisions: going back by the annotation, clean-up, and a history that outlives its Deployment.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use podium::api::{DeleteOptions, Propagation};
use podium::object::{Kind, SharedObject};
use serde_json::json;

use super::super::cluster::{Cluster, NO_NODES, deployment, key, set_image};
use super::{REVISION, annotation, set_of};

const CAUSE: &str = "kubernetes.io/change-cause";
const ROLLBACK: &str = "deprecated.deployment.rollback.to";

fn update(cluster: &Cluster, image: &str, cause: &str) {
    cluster.change::<Deployment>("web", |d| {
        set_image(d, image);
        d.metadata.annotations.get_or_insert_default().insert(CAUSE.into(), cause.into());
    });
}

fn roll_back(cluster: &Cluster, to: &str) {
    cluster.change::<Deployment>("web", |d| {
        d.metadata.annotations.get_or_insert_default().insert(ROLLBACK.into(), to.into());
    });
}

fn image(cluster: &Cluster) -> String {
    let web = cluster.get::<Deployment>("web");
    assert_eq!(annotation(&web.metadata, ROLLBACK), None, "the rollback is done or refused");
    web.spec.template.spec.as_ref().unwrap().containers[0].image.clone().unwrap()
}

/// Returns a cluster with three revisions, each with its change cause.
async fn three() -> Cluster {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(deployment("web", 2, 1, 0));
    for (image, cause) in [("one", "first"), ("two", "second"), ("three", "third")] {
        update(&cluster, image, cause);
        cluster.run().await;
    }
    assert_eq!(cluster.sets(), "1:0/0 2:0/0 3:2/2");
    cluster
}

#[tokio::test(start_paused = true)]
async fn an_annotation_brings_back_the_revision_before_or_any_other_dep_4() {
    let cluster = three().await;
    for (requested, expected, sets, cause, event) in [
        ("0", "two", "1:0/0 3:0/0 4:2/2", "second", "to revision 2"),
        ("1", "one", "3:0/0 4:0/0 5:2/2", "first", "to revision 1"),
    ] {
        roll_back(&cluster, requested);
        cluster.run().await;
        assert_eq!((image(&cluster).as_str(), cluster.sets().as_str()), (expected, sets));
        let newest = &sets[sets.len() - 5..sets.len() - 4];
        let web = cluster.get::<Deployment>("web");
        assert_eq!(annotation(&web.metadata, REVISION).as_deref(), Some(newest));
        // The change cause comes back with the template, on both.
        assert_eq!(annotation(&web.metadata, CAUSE).as_deref(), Some(cause));
        assert_eq!(annotation(&set_of(&cluster, newest).metadata, CAUSE).as_deref(), Some(cause));
        let events = cluster.events("DeploymentRollback");
        assert_eq!(events.last().unwrap(), &format!("Rolled back deployment \"web\" {event}"));
    }
    assert_eq!(annotation(&set_of(&cluster, "3").metadata, CAUSE).as_deref(), Some("third"));

    roll_back(&cluster, "5");
    cluster.run().await;
    assert_eq!(image(&cluster), "one");
    assert_eq!(
        cluster.events("DeploymentRollbackTemplateUnchanged"),
        ["The rollback revision contains the same template as current deployment \"web\""]
    );
    roll_back(&cluster, "77");
    cluster.run().await;
    assert_eq!(image(&cluster), "one");
    assert_eq!(
        cluster.events("DeploymentRollbackRevisionNotFound"),
        ["Unable to find the revision to rollback to."]
    );
    assert_eq!(cluster.events("DeploymentRollback").len(), 2);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_deployment_goes_back_when_it_is_resumed_dep_4() {
    let cluster = three().await;
    cluster.change::<Deployment>("web", |d| d.spec.paused = Some(true));
    roll_back(&cluster, "1");
    cluster.run().await;
    assert_eq!(cluster.sets(), "1:0/0 2:0/0 3:2/2");
    cluster.change::<Deployment>("web", |d| d.spec.paused = Some(false));
    cluster.run().await;
    assert_eq!((image(&cluster).as_str(), cluster.sets().as_str()), ("one", "2:0/0 3:0/0 4:2/2"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_history_nothing_can_be_undone_dep_4() {
    let cluster = Cluster::start(NO_NODES);
    let mut web = deployment("web", 2, 1, 0);
    web["spec"]["revisionHistoryLimit"] = json!(0);
    cluster.create::<Deployment>(web);
    cluster.run().await;
    update(&cluster, "two", "second");
    cluster.settle().await;
    assert_eq!(cluster.sets(), "1:2/2 2:1/0", "in the middle of it the old one is still needed");
    cluster.run().await;
    assert_eq!(cluster.sets(), "2:2/2");
    roll_back(&cluster, "0");
    cluster.run().await;
    assert_eq!((image(&cluster).as_str(), cluster.sets().as_str()), ("two", "2:2/2"));
    assert_eq!(cluster.events("DeploymentRollbackRevisionNotFound"), ["Unable to find last revision."]);
    // A limit that shrinks takes effect without another rollout.
    cluster.change::<Deployment>("web", |d| d.spec.revision_history_limit = Some(5));
    for image in ["three", "four", "five"] {
        update(&cluster, image, image);
        cluster.run().await;
    }
    assert_eq!(cluster.sets(), "2:0/0 3:0/0 4:0/0 5:2/2");
    cluster.change::<Deployment>("web", |d| d.spec.revision_history_limit = Some(1));
    cluster.run().await;
    assert_eq!(cluster.sets(), "4:0/0 5:2/2");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn sets_left_behind_are_adopted_with_their_history_dep_1_dep_4() {
    let cluster = three().await;
    let uids = || cluster.pods().iter().map(|p| p.uid().to_string()).collect::<Vec<_>>();
    let before = uids();
    let orphan = DeleteOptions { propagation: Some(Propagation::Orphan), ..DeleteOptions::default() };
    cluster.api.delete(Kind::Deployment, &key("web"), &orphan).unwrap();
    cluster.run().await;
    assert_eq!((cluster.sets().as_str(), uids()), ("1:0/0 2:0/0 3:2/2", before.clone()));

    let mut again = deployment("web", 2, 1, 0);
    // The object is as updates left it: the pull policy is that of the first image.
    again["spec"]["template"]["spec"]["containers"] =
        json!([{"name": "c", "image": "three", "imagePullPolicy": "IfNotPresent"}]);
    let again = cluster.create::<Deployment>(again);
    cluster.run().await;
    assert_eq!((cluster.sets().as_str(), uids()), ("1:0/0 2:0/0 3:2/2", before), "the very same pods");
    let web = cluster.get::<Deployment>("web");
    assert_eq!(annotation(&web.metadata, REVISION).as_deref(), Some("3"));
    let owned = |set: &SharedObject<ReplicaSet>| {
        set.metadata.owner_references.as_ref().unwrap()[0].uid == again.uid()
    };
    assert!(cluster.api.list_as::<ReplicaSet>(None).iter().all(owned));
    roll_back(&cluster, "1");
    cluster.run().await;
    assert_eq!((image(&cluster).as_str(), cluster.sets().as_str()), ("one", "2:0/0 3:0/0 4:2/2"));
    cluster.stop().await;
}
