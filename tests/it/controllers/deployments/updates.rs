//! Creating and updating: labels, the steps of a rollout in order, a rollover.

use std::collections::HashSet;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use podium::api::ApiError;
use podium::object::owner::controller_of;
use podium::object::pod::is_ready;
use serde_json::json;

use super::super::cluster::{Cluster, NO_NODES, deployment, key, set_image};
use super::{annotation, scalings, set_of};

const HASH: &str = "pod-template-hash";

/// The page's Deployment: three replicas and the default strategy.
fn nginx() -> serde_json::Value {
    let mut nginx = deployment("nginx", 3, 1, 0);
    nginx["spec"].as_object_mut().unwrap().remove("strategy");
    nginx["metadata"]["labels"] = json!({"team": "web"});
    nginx
}

fn change_fails(cluster: &Cluster, edit: impl Fn(&mut Deployment)) -> String {
    let changed = cluster.api.modify::<Deployment>(&key("nginx"), |d| {
        edit(d);
        Ok(())
    });
    changed.map(drop).map_err(|error: ApiError| error.to_string()).unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn a_new_deployment_marks_its_set_and_pods_with_the_template_s_hash_dep_1() {
    let cluster = Cluster::start(NO_NODES);
    let made = cluster.create::<Deployment>(nginx());
    cluster.run().await;
    let set = set_of(&cluster, "1");
    let hash = set.metadata.labels.as_ref().unwrap()[HASH].clone();
    assert_eq!(set.name(), format!("nginx-{hash}"));
    assert_eq!(controller_of(&set.metadata).unwrap().uid, made.uid());
    let labels = |value: serde_json::Value| serde_json::from_value(value).unwrap();
    let marked = labels(json!({"app": "nginx", HASH: hash}));
    assert_eq!(set.spec.selector.match_labels, marked);
    assert_eq!(set.metadata.labels, marked, "the template's labels, not the Deployment's own");
    assert_eq!(set.spec.template.as_ref().unwrap().metadata.as_ref().unwrap().labels, marked);
    for (name, value) in [("desired-replicas", "3"), ("max-replicas", "4"), ("revision", "1")] {
        let name = format!("deployment.kubernetes.io/{name}");
        assert_eq!(annotation(&set.metadata, &name).as_deref(), Some(value), "{name}");
    }
    for pod in cluster.pods() {
        assert_eq!(pod.metadata.labels, marked);
        assert!(
            pod.name().starts_with(&format!("{}-", set.name())) && pod.name().len() == set.name().len() + 6
        );
        assert_eq!(controller_of(&pod.metadata).unwrap().uid, set.uid());
    }
    assert_eq!(
        cluster.get::<Deployment>("nginx").spec.template.metadata.as_ref().unwrap().labels,
        labels(json!({"app": "nginx"})),
        "the Deployment's own template stays as it was"
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_update_takes_the_page_s_steps_dep_2() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(nginx());
    cluster.run().await;
    cluster.change::<Deployment>("nginx", |d| set_image(d, "nginx:1.16.1"));
    cluster.run().await;
    assert_eq!(scalings(&cluster), "a:0>3 b:0>1 a:3>2 b:1>2 a:2>1 b:2>3 a:1>0");
    assert_eq!(cluster.sets(), "1:0/0 2:3/3");
    // Only the template starts a rollout: sizes, labels and strategy do not.
    cluster.change::<Deployment>("nginx", |d| {
        d.spec.replicas = Some(4);
        d.spec.min_ready_seconds = Some(1);
        d.metadata.labels = None;
    });
    cluster.run().await;
    cluster.pass(2).await;
    assert_eq!(cluster.sets(), "1:0/0 2:4/4");
    // The ReplicaSet of an earlier template is taken up again.
    cluster.change::<Deployment>("nginx", |d| set_image(d, "nginx:1.7.9"));
    cluster.run().await;
    cluster.pass(10).await;
    cluster.run().await;
    cluster.pass(10).await;
    assert_eq!(cluster.sets(), "2:0/0 3:4/4");
    let again = set_of(&cluster, "3");
    assert_eq!(
        annotation(&again.metadata, "deployment.kubernetes.io/revision-history").as_deref(),
        Some("1")
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rollover_does_not_wait_for_the_update_before_dep_3() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(deployment("web", 5, 1, 2));
    cluster.settle().await;
    // Three of five pods run when the template changes again.
    for pod in cluster.pods().iter().take(3) {
        assert!(cluster.act_on(pod));
        cluster.set_ready(pod, true);
    }
    cluster.settle().await;
    let serving: HashSet<String> =
        cluster.pods().iter().filter(|p| is_ready(p)).map(|p| p.uid().to_string()).collect();
    cluster.change::<Deployment>("web", |d| set_image(d, "two"));
    cluster.settle().await;
    let old: HashSet<String> = cluster
        .pods()
        .iter()
        .filter(|p| image(p) == "nginx:1.7.9" && p.metadata.deletion_timestamp.is_none())
        .map(|p| p.uid().to_string())
        .collect();
    assert_eq!(old, serving, "only the pods that do not serve yet go at once");
    assert_eq!(cluster.sets(), "1:3/3 2:3/0");
    // The third rollout does not wait for the second: the second's pods, none of which is ready, are deleted first.
    cluster.change::<Deployment>("web", |d| set_image(d, "three"));
    cluster.settle().await;
    assert_eq!(cluster.sets(), "1:3/3 2:0/0 3:3/0");
    cluster.run().await;
    assert_eq!(cluster.sets(), "1:0/0 2:0/0 3:5/5");
    assert_eq!(cluster.conditions("web")[1], "Progressing=True NewReplicaSetAvailable");
    cluster.stop().await;
}

fn image(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap()
}

#[tokio::test(start_paused = true)]
async fn labels_may_be_added_to_the_template_and_selectors_never_change_dep_2_api_5() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(nginx());
    cluster.run().await;
    let relabelled = |key: &'static str, value: Option<&'static str>| {
        move |d: &mut Deployment| {
            let labels = d.spec.template.metadata.get_or_insert_default().labels.get_or_insert_default();
            match value {
                Some(value) => drop(labels.insert(key.into(), value.into())),
                None => drop(labels.remove(key)),
            }
        }
    };
    let refused = change_fails(&cluster, |d| {
        d.spec.selector.match_labels.get_or_insert_default().insert("tier".into(), "front".into());
        relabelled("tier", Some("front"))(d);
    });
    assert!(refused.ends_with("field is immutable"), "{refused}");
    for edit in [relabelled("app", None), relabelled("app", Some("other"))] {
        let refused = change_fails(&cluster, edit);
        assert!(refused.contains("`selector` does not match template `labels`"), "{refused}");
    }
    cluster.run().await;
    assert_eq!(cluster.sets(), "1:3/3");
    cluster.change::<Deployment>("nginx", relabelled("tier", Some("front")));
    cluster.run().await;
    assert_eq!(cluster.sets(), "1:0/0 2:3/3");
    assert!(cluster.pods().iter().all(|p| p.metadata.labels.as_ref().unwrap()["tier"] == "front"));
    // The removal of a label that no selector needs is a new template, too; here it equals the first one.
    cluster.change::<Deployment>("nginx", relabelled("tier", None));
    cluster.run().await;
    assert_eq!(cluster.sets(), "2:0/0 3:3/3");
    assert_eq!(cluster.api.list_as::<ReplicaSet>(None).len(), 2);
    cluster.stop().await;
}
