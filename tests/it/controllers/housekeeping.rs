//! Namespaces, garbage, budgets, endpoints and nodes, by scenario.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Namespace, Node, Pod, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use podium::api::{DeleteOptions, Propagation};
use podium::object::pod::{Phase, condition, phase};
use podium::object::{Key, Kind};
use serde_json::{Value, json};

use super::cluster::{Cluster, NO_NODES, deployment, key};
use super::nodes::node;

fn map(name: &str, owners: &[(&str, &str)], finalizers: &[&str]) -> Value {
    let owners: Vec<Value> = owners
        .iter()
        .map(|(name, uid)| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid,
            "blockOwnerDeletion": true})
        })
        .collect();
    json!({"metadata": {"name": name, "namespace": "default", "ownerReferences": owners,
        "finalizers": finalizers}})
}

fn maps(cluster: &Cluster) -> Vec<String> {
    let all = cluster.api.list_as::<ConfigMap>(Some("default"));
    all.iter().map(|m| m.name().to_string()).filter(|n| n != "kube-root-ca.crt").collect()
}

fn delete(cluster: &Cluster, kind: Kind, name: &str, propagation: Propagation) {
    let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
    cluster.api.delete(kind, &key(name), &options).unwrap();
}

#[tokio::test(start_paused = true)]
async fn dependents_follow_their_owner_according_to_the_propagation_policy_gc_1() {
    let cluster = Cluster::start(NO_NODES);
    for (propagation, while_held, at_last) in [
        (Propagation::Background, vec!["held"], vec![]),
        // All others wait for the one with the finalizer.
        (Propagation::Foreground, vec!["held", "middle", "owner"], vec![]),
        (Propagation::Orphan, vec!["held", "middle"], vec!["held", "middle"]),
    ] {
        let owner = cluster.create::<ConfigMap>(map("owner", &[], &[]));
        let middle = cluster.create::<ConfigMap>(map("middle", &[("owner", owner.uid())], &[]));
        cluster.create::<ConfigMap>(map(
            "held",
            &[("owner", owner.uid()), ("middle", middle.uid())],
            &["x/y"],
        ));
        cluster.settle().await;
        delete(&cluster, Kind::ConfigMap, "owner", propagation);
        cluster.settle().await;
        assert_eq!(maps(&cluster), while_held, "{propagation:?}");
        cluster.change::<ConfigMap>("held", |m| m.metadata.finalizers = None);
        cluster.settle().await;
        assert_eq!(maps(&cluster), at_last, "{propagation:?}");
        if propagation == Propagation::Orphan {
            delete(&cluster, Kind::ConfigMap, "middle", Propagation::Background);
            cluster.settle().await;
            assert!(maps(&cluster).is_empty(), "the last owner is gone");
        }
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_absent_owner_takes_its_dependents_and_no_owner_reaches_across_namespaces_gc_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster
        .api
        .create_as(serde_json::from_value::<Namespace>(json!({"metadata": {"name": "other"}})).unwrap())
        .unwrap();
    let other: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "owner", "namespace": "other"}})).unwrap();
    let other = cluster.api.create_as(other).unwrap();
    cluster.settle().await;
    cluster.create::<ConfigMap>(map("lost", &[("missing", "no-such-uid")], &[]));
    cluster.create::<ConfigMap>(map("across", &[("owner", other.uid())], &[]));
    let here = cluster.create::<ConfigMap>(map("here", &[], &[]));
    cluster.create::<ConfigMap>(map("half", &[("here", here.uid()), ("missing", "no-such-uid")], &[]));
    cluster.settle().await;
    assert_eq!(maps(&cluster), ["half", "here"]);
    assert_eq!(cluster.get::<ConfigMap>("half").metadata.owner_references.as_ref().unwrap().len(), 1);
    assert_eq!(cluster.events("OwnerRefInvalidNamespace").len(), 1);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_goes_in_the_foreground_or_leaves_its_pods_gc_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(deployment("web", 2, 1, 0));
    cluster.run().await;
    delete(&cluster, Kind::Deployment, "web", Propagation::Foreground);
    cluster.settle().await;
    assert!(cluster.api.get(Kind::Deployment, &key("web")).is_ok(), "its pods still terminate");
    cluster.run().await;
    assert!(cluster.api.get(Kind::Deployment, &key("web")).is_err());
    assert!(cluster.pods().is_empty() && cluster.api.list_as::<ReplicaSet>(None).is_empty());

    cluster.create::<Deployment>(deployment("web", 2, 1, 0));
    cluster.run().await;
    delete(&cluster, Kind::Deployment, "web", Propagation::Orphan);
    cluster.run().await;
    assert_eq!((cluster.sets().as_str(), cluster.pods().len()), ("1:2/2", 2));
    cluster.create::<Deployment>(deployment("web", 2, 1, 0));
    cluster.run().await;
    assert_eq!((cluster.sets().as_str(), cluster.pods().len()), ("1:2/2", 2), "adopted again");
    cluster.stop().await;
}

/// Extension API servers found no CA to authenticate clients with.
#[tokio::test(start_paused = true)]
async fn extending_servers_find_the_ca_of_clients_api_17() {
    let cluster = Cluster::start(NO_NODES);
    let namespace = json!({"metadata": {"name": "kube-system"}});
    cluster.api.create_as(serde_json::from_value::<Namespace>(namespace).unwrap()).unwrap();
    cluster.settle().await;
    let place = Key::new("kube-system", "extension-apiserver-authentication");
    let map = cluster.api.get_as::<ConfigMap>(&place).unwrap();
    assert_eq!(map.data.as_ref().unwrap()["client-ca-file"], "the CA");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_furnished_and_emptied_api_10() {
    let cluster = Cluster::start(NO_NODES);
    cluster
        .api
        .create_as(serde_json::from_value::<Namespace>(json!({"metadata": {"name": "team"}})).unwrap())
        .unwrap();
    cluster.settle().await;
    let of_team = |name: &str| Key::new("team", name);
    assert!(cluster.api.get_as::<ServiceAccount>(&of_team("default")).is_ok());
    let ca = cluster.api.get_as::<ConfigMap>(&of_team("kube-root-ca.crt")).unwrap();
    assert_eq!(ca.data.as_ref().unwrap()["ca.crt"], "the CA");
    cluster.api.delete(Kind::ConfigMap, &ca.key(), &DeleteOptions::default()).unwrap();
    cluster.settle().await;
    assert!(cluster.api.get(Kind::ConfigMap, &ca.key()).is_ok(), "it comes back");

    let mut web = deployment("web", 2, 1, 0);
    web["metadata"]["namespace"] = json!("team");
    cluster.create::<Deployment>(web);
    cluster.settle().await;
    let pods = || cluster.api.list_as::<Pod>(Some("team"));
    for pod in pods() {
        cluster.api.bind(&pod.key(), pod.uid(), "n1").unwrap();
    }
    cluster.api.delete(Kind::Namespace, &Key::new("", "team"), &DeleteOptions::default()).unwrap();
    cluster.settle().await;
    let team = cluster.api.get_as::<Namespace>(&Key::new("", "team")).unwrap();
    let status = team.status.as_ref().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Terminating"));
    let remaining =
        status.conditions.iter().flatten().find(|c| c.type_ == "NamespaceContentRemaining").unwrap();
    assert!(remaining.message.as_ref().unwrap().contains("pods. has 2 resource instances"), "{remaining:?}");
    for pod in pods() {
        cluster.act_on(&pod);
    }
    cluster.settle().await;
    assert!(cluster.api.get(Kind::Namespace, &Key::new("", "team")).is_err());
    assert!(Kind::BUILT_IN.iter().all(|kind| cluster.api.list(*kind, Some("team")).objects.is_empty()));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_follows_its_pods_and_their_owner_pdb_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(deployment("web", 4, 1, 0));
    cluster.create::<PodDisruptionBudget>(json!({"metadata": {"name": "b", "namespace": "default"},
        "spec": {"maxUnavailable": "25%", "selector": {"matchLabels": {"app": "web"}}}}));
    let counts = || {
        let status = cluster.get::<PodDisruptionBudget>("b").status.clone().unwrap();
        (
            status.expected_pods.unwrap(),
            status.desired_healthy.unwrap(),
            status.current_healthy.unwrap(),
            status.disruptions_allowed.unwrap(),
        )
    };
    cluster.settle().await;
    assert_eq!(counts(), (4, 3, 0, 0));
    cluster.run().await;
    assert_eq!(counts(), (4, 3, 4, 1));
    let pods = cluster.pods();
    cluster.api.evict(&pods[0].key(), &DeleteOptions::default()).unwrap();
    let refused = cluster.api.evict(&pods[1].key(), &DeleteOptions::default()).unwrap_err();
    assert_eq!(refused.code(), 429);
    cluster.settle().await;
    assert_eq!(counts(), (4, 3, 3, 0));
    cluster.run().await;
    assert_eq!(counts(), (4, 3, 4, 1));
    cluster.change::<Deployment>("web", |d| d.spec.replicas = Some(8));
    cluster.run().await;
    assert_eq!(counts(), (8, 6, 8, 2));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_follow_readiness_and_leave_at_once_svc_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Service>(json!({"metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}}));
    cluster.create::<Deployment>(deployment("web", 2, 1, 0));
    cluster.run().await;
    let legacy = || {
        let endpoints = cluster.get::<Endpoints>("web");
        let count = |not_ready: bool| {
            let subsets = endpoints.subsets.iter().flatten();
            subsets
                .flat_map(|s| if not_ready { &s.not_ready_addresses } else { &s.addresses })
                .flatten()
                .count()
        };
        (count(false), count(true))
    };
    let slices = || -> Vec<(bool, bool, bool)> {
        let slices = cluster.api.list_as::<EndpointSlice>(Some("default"));
        let endpoints = slices.iter().flat_map(|s| s.endpoints.clone().unwrap_or_default());
        let mut conditions: Vec<_> = endpoints
            .map(|e| e.conditions.unwrap())
            .map(|c| (c.ready.unwrap(), c.serving.unwrap(), c.terminating.unwrap()))
            .collect();
        conditions.sort_unstable();
        conditions
    };
    assert_eq!((legacy(), slices()), ((2, 0), vec![(true, true, false); 2]));
    let pods = cluster.pods();
    cluster.set_ready(&pods[0], false);
    cluster.settle().await;
    assert_eq!((legacy(), slices()), ((1, 1), vec![(false, false, false), (true, true, false)]));
    cluster.api.delete(Kind::Pod, &pods[1].key(), &DeleteOptions::default()).unwrap();
    cluster.settle().await;
    assert_eq!((legacy(), slices()), ((0, 1), vec![(false, false, false), (false, true, true)]));
    cluster.run().await;
    assert_eq!((legacy(), slices()), ((2, 0), vec![(true, true, false); 2]));
    cluster.api.delete(Kind::Service, &key("web"), &DeleteOptions::default()).unwrap();
    cluster.settle().await;
    assert!(cluster.api.get(Kind::Endpoints, &key("web")).is_err() && slices().is_empty());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_node_are_failed_and_removed_gc_2() {
    let cluster = Cluster::start(&["nodelifecycle"]);
    cluster.create::<Node>(node("n1", ""));
    cluster.create::<Deployment>(deployment("web", 1, 1, 0));
    cluster.run().await;
    let pod = cluster.pods().remove(0);
    let watcher = cluster.api.watch(Kind::Pod, cluster.api.revision(), podium::store::Visibility::Applied);
    cluster.api.delete(Kind::Node, &Key::new("", "n1"), &DeleteOptions::default()).unwrap();
    cluster.pass(39).await;
    assert!(cluster.api.get(Kind::Pod, &pod.key()).is_ok(), "it may come back");
    cluster.pass(2).await;
    assert!(cluster.api.get(Kind::Pod, &pod.key()).is_err());
    let mut watcher = watcher;
    let changes = watcher.take().unwrap();
    let last = changes.iter().rfind(|c| c.object.uid() == pod.uid()).unwrap();
    let last = last.object.get::<Pod>().unwrap();
    assert_eq!(phase(last), Phase::Failed, "ended before it was removed");
    assert_eq!(condition(last, "DisruptionTarget").unwrap().reason.as_deref(), Some("DeletionByPodGC"));
    assert_eq!(cluster.pods().len(), 1, "replaced");
    cluster.stop().await;
}
