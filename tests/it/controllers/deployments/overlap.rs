//! Deployments beside one another: canaries, and selectors that overlap.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

use super::super::cluster::{Cluster, NO_NODES, deployment, set_image};

/// Counts the pods of each track that the service reaches.
fn pods_reached_by_service(cluster: &Cluster) -> BTreeMap<String, usize> {
    let slices = cluster.api.list_as::<EndpointSlice>(Some("default"));
    let endpoints = slices.iter().flat_map(|s| s.endpoints.clone().unwrap_or_default());
    let mut tracks = BTreeMap::new();
    for endpoint in endpoints.filter(|e| e.conditions.as_ref().is_some_and(|c| c.ready == Some(true))) {
        let pod = endpoint.target_ref.unwrap().name.unwrap();
        let pod = cluster.get::<k8s_openapi::api::core::v1::Pod>(&pod);
        *tracks.entry(pod.metadata.labels.as_ref().unwrap()["track"].clone()).or_default() += 1;
    }
    tracks
}

#[tokio::test(start_paused = true)]
async fn a_canary_shares_the_load_and_is_promoted_dep_2_svc_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Service>(json!({"metadata": {"name": "guestbook", "namespace": "default"},
        "spec": {"selector": {"app": "guestbook"}, "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}}));
    let track = |name: &str, replicas: i32, image: &str| -> Value {
        let mut track = deployment(name, replicas, 1, 0);
        let labels = json!({"app": "guestbook", "track": name});
        track["spec"]["selector"] = json!({"matchLabels": labels});
        track["spec"]["template"]["metadata"]["labels"] = labels;
        track["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        track
    };
    cluster.create::<Deployment>(track("stable", 3, "v3"));
    cluster.create::<Deployment>(track("canary", 1, "v4"));
    cluster.run().await;
    let counts = |pairs: &[(&str, usize)]| pairs.iter().map(|(k, n)| ((*k).to_string(), *n)).collect();
    assert_eq!(pods_reached_by_service(&cluster), counts(&[("canary", 1), ("stable", 3)]));
    // The canary is promoted: the stable track gets the image, and the canary is deleted.
    cluster.change::<Deployment>("stable", |d| set_image(d, "v4"));
    cluster.run().await;
    cluster.change::<Deployment>("canary", |d| d.spec.replicas = Some(0));
    cluster.run().await;
    assert_eq!(pods_reached_by_service(&cluster), counts(&[("stable", 3)]));
    assert_eq!(cluster.pods().len(), 3);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn overlapping_selectors_take_nothing_from_one_another_dep_1() {
    let cluster = Cluster::start(NO_NODES);
    // Both have the same selector and the same template: even the hash is the same.
    for name in ["one", "two"] {
        let mut value = deployment(name, 2, 1, 0);
        value["spec"]["selector"] = json!({"matchLabels": {"app": "shared"}});
        value["spec"]["template"]["metadata"]["labels"] = json!({"app": "shared"});
        cluster.create::<Deployment>(value);
    }
    cluster.run().await;
    let count = |name: &str| {
        let prefix = format!("{name}-");
        let pods = cluster.pods();
        let images = pods.iter().filter(|p| p.name().starts_with(&prefix));
        let mut images: Vec<String> =
            images.map(|p| p.spec.as_ref().unwrap().containers[0].image.clone().unwrap()).collect();
        images.sort();
        images.join(" ")
    };
    let (old, new) = ("nginx:1.7.9", "nginx:2");
    assert_eq!((count("one"), count("two")), (format!("{old} {old}"), format!("{old} {old}")));
    cluster.change::<Deployment>("one", |d| set_image(d, new));
    cluster.run().await;
    assert_eq!((count("one"), count("two")), (format!("{new} {new}"), format!("{old} {old}")));
    cluster.change::<Deployment>("two", |d| d.spec.replicas = Some(1));
    cluster.run().await;
    assert_eq!((count("one"), count("two")), (format!("{new} {new}"), old.to_string()));
    for name in ["one", "two"] {
        let status = cluster.get::<Deployment>(name).status.clone().unwrap();
        assert_eq!(status.replicas, status.updated_replicas, "{name}");
        assert_eq!(status.collision_count, None, "{name}");
    }
    let revision = cluster.api.revision();
    cluster.pass(600).await;
    assert_eq!(cluster.api.revision(), revision, "neither fights the other");
    cluster.stop().await;
}
