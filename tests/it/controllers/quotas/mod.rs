//! Quotas, limit ranges and pod presets: limits of namespaces, and defaults for their pods (QUO-1, PP-1, API-9).

#![expect(clippy::needless_pass_by_value, reason = "tables of JSON read better without borrows")]

mod concurrent_usage;
mod pages;
mod presets;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, ResourceQuota, Secret, Service};
use podium::api::{Api, ApiConfig, DeleteOptions, WriteOptions};
use podium::base::clock::Clock;
use podium::object::{Kind, Object, TypedKind};
use podium::store::Store;
use serde_json::{Value, json};

use super::cluster::{Cluster, NO_NODES, deployment, key};

fn quota(hard: Value) -> Value {
    json!({"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard}})
}

fn pod(name: &str, requests: Value, limits: Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "nginx", "resources": {"requests": requests, "limits": limits}}]}})
}

/// The API's error for a new object that it refuses.
fn refusal<T: TypedKind>(api: &Api, manifest: Value) -> String {
    let object = Object::from_value(T::kind(), manifest).unwrap();
    let error = api.create(object, &WriteOptions::default()).unwrap_err();
    assert_eq!(error.code(), 403, "{error}");
    error.to_string()
}

/// Formats all used amounts as `name=amount`.
fn used(api: &Api, quota: &str) -> String {
    let quota = api.get_as::<ResourceQuota>(&key(quota)).unwrap();
    let used = quota.status.as_ref().and_then(|s| s.used.clone()).unwrap_or_default();
    used.iter().map(|(name, q)| format!("{name}={}", q.0)).collect::<Vec<_>>().join(" ")
}

/// The page "Configure Memory and CPU Quotas for a Namespace".
#[tokio::test(start_paused = true)]
async fn the_quota_page_s_pods_fit_or_are_refused_quo_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<ResourceQuota>(quota(
        json!({"requests.cpu": "1", "requests.memory": "1Gi", "limits.cpu": "2", "limits.memory": "2Gi"}),
    ));
    cluster.settle().await;
    assert_eq!(used(&cluster.api, "q"), "limits.cpu=0 limits.memory=0 requests.cpu=0 requests.memory=0");
    let ask = |cpu: &str, memory: &str| json!({"cpu": cpu, "memory": memory});
    cluster.create::<Pod>(pod("one", ask("400m", "600Mi"), ask("800m", "800Mi")));
    let after_one = "limits.cpu=800m limits.memory=800Mi requests.cpu=400m requests.memory=600Mi";
    assert_eq!(used(&cluster.api, "q"), after_one, "charged with the write, not some time later");
    assert_eq!(
        refusal::<Pod>(&cluster.api, pod("two", ask("400m", "700Mi"), ask("800m", "1Gi"))),
        "pods \"two\" is forbidden: exceeded quota: q, requested: requests.memory=700Mi, used: \
         requests.memory=600Mi, limited: requests.memory=1Gi"
    );
    assert_eq!(
        refusal::<Pod>(&cluster.api, pod("bare", json!({}), json!({"memory": "1Mi"}))),
        "pods \"bare\" is forbidden: failed quota: q: must specify limits.cpu for: c; requests.cpu for: c"
    );
    assert_eq!(used(&cluster.api, "q"), after_one, "a refusal costs nothing");
    // An invalid pod and a dry run use no quota either.
    let invalid = Object::from_value(Kind::Pod, pod("Two", ask("1m", "1Mi"), ask("1m", "1Mi"))).unwrap();
    cluster.api.create(invalid, &WriteOptions::default()).unwrap_err();
    let dry = WriteOptions { dry_run: true, ..WriteOptions::default() };
    let fits = Object::from_value(Kind::Pod, pod("two", ask("1m", "1Mi"), ask("1m", "1Mi"))).unwrap();
    cluster.api.create(fits, &dry).unwrap();
    // A pod with an existing name uses no quota either.
    let taken = Object::from_value(Kind::Pod, pod("one", ask("1m", "1Mi"), ask("1m", "1Mi"))).unwrap();
    assert!(cluster.api.create(taken, &WriteOptions::default()).unwrap_err().is_already_exists());
    assert_eq!(used(&cluster.api, "q"), after_one);
    // A pod that has ended is not counted.
    let one = cluster.get::<Pod>("one");
    cluster.fail(&one);
    cluster.settle().await;
    assert_eq!(used(&cluster.api, "q"), "limits.cpu=0 limits.memory=0 requests.cpu=0 requests.memory=0");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn room_that_was_given_up_is_found_before_a_refusal_quo_1() {
    let cluster = Cluster::start(&["podgc", "nodelifecycle", "resourcequota"]);
    cluster.create::<ResourceQuota>(quota(json!({"pods": "1"})));
    cluster.create::<Pod>(pod("one", json!({}), json!({})));
    refusal::<Pod>(&cluster.api, pod("two", json!({}), json!({})));
    cluster.api.delete(Kind::Pod, &key("one"), &DeleteOptions::default()).unwrap();
    assert_eq!(used(&cluster.api, "q"), "pods=1", "the usage is not recounted yet");
    cluster.create::<Pod>(pod("two", json!({}), json!({})));
    // A changed hard limit applies at once, too.
    cluster.change::<ResourceQuota>("q", |q| {
        q.spec.as_mut().unwrap().hard =
            serde_json::from_value(json!({"count/pods": "2", "pods": "9"})).unwrap();
    });
    cluster.create::<Pod>(pod("three", json!({}), json!({})));
    assert!(refusal::<Pod>(&cluster.api, pod("four", json!({}), json!({}))).contains("used: count/pods=2"));
    assert_eq!(used(&cluster.api, "q"), "count/pods=2 pods=2");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn objects_of_every_kind_are_counted_quo_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<ResourceQuota>(quota(json!({"configmaps": "5", "count/configmaps": "5", "secrets": "1",
        "count/deployments.apps": "1", "count/replicasets.apps": "1", "services": "2", "services.nodeports": "1",
        "persistentvolumeclaims": "2", "requests.storage": "10Gi", "resourcequotas": "2",
        "gold.storageclass.storage.k8s.io/requests.storage": "1Gi", "count/unheard.of": "1"})));
    cluster.settle().await;
    assert!(used(&cluster.api, "q").contains(" count/unheard.of=0 "), "{}", used(&cluster.api, "q"));
    let meta = |name: &str| json!({"name": name, "namespace": "default"});
    cluster.create::<Secret>(json!({"metadata": meta("s")}));
    assert_eq!(
        refusal::<Secret>(&cluster.api, json!({"metadata": meta("t")})),
        "secrets \"t\" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=1, limited: secrets=1"
    );
    cluster.create::<Deployment>(deployment("web", 0, 1, 0));
    assert!(refusal::<Deployment>(&cluster.api, deployment("next", 0, 1, 0)).starts_with(
        "deployments.apps \"next\" is forbidden: exceeded quota: q, requested: count/deployments.apps=1"
    ));
    let service = |name: &str, type_: &str| json!({"metadata": meta(name), "spec": {"type": type_, "ports": [{"port": 80}]}});
    cluster.create::<Service>(service("a", "NodePort"));
    assert!(
        refusal::<Service>(&cluster.api, service("b", "NodePort"))
            .contains("requested: services.nodeports=1")
    );
    cluster.create::<Service>(service("b", "ClusterIP"));
    let raised = cluster.api.modify::<Service>(&key("b"), |service| {
        service.spec.as_mut().unwrap().type_ = Some("NodePort".into());
        Ok(())
    });
    assert!(raised.unwrap_err().to_string().contains("exceeded quota: q, requested: services.nodeports=1"));
    let claim = |name: &str, class: &str, size: &str| {
        json!({"metadata": meta(name), "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": size}}}})
    };
    assert!(
        refusal::<PersistentVolumeClaim>(&cluster.api, claim("big", "gold", "2Gi"))
            .contains("gold.storageclass.storage.k8s.io/requests.storage=2Gi")
    );
    cluster.create::<PersistentVolumeClaim>(claim("fits", "silver", "2Gi"));
    cluster.create::<ConfigMap>(json!({"metadata": meta("m")}));
    cluster.settle().await;
    // kube-root-ca.crt is the other config map, and the Deployment's ReplicaSet is the set.
    assert_eq!(
        used(&cluster.api, "q"),
        "configmaps=2 count/configmaps=2 count/deployments.apps=1 count/replicasets.apps=1 count/unheard.of=0 \
         gold.storageclass.storage.k8s.io/requests.storage=0 persistentvolumeclaims=1 requests.storage=2Gi \
         resourcequotas=1 secrets=1 services=2 services.nodeports=1"
    );
    cluster.api.delete(Kind::Service, &key("a"), &DeleteOptions::default()).unwrap();
    cluster.settle().await;
    assert!(used(&cluster.api, "q").ends_with("services=1 services.nodeports=0"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn quotas_with_scopes_count_only_what_is_in_them_quo_1() {
    let cluster = Cluster::start(NO_NODES);
    let mut best_effort = quota(json!({"pods": "1"}));
    best_effort["spec"]["scopes"] = json!(["BestEffort"]);
    cluster.create::<ResourceQuota>(best_effort);
    let mut urgent = quota(json!({"cpu": "1"}));
    urgent["metadata"]["name"] = json!("urgent");
    urgent["spec"]["scopeSelector"] = json!({"matchExpressions": [
        {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]});
    cluster.create::<ResourceQuota>(urgent);
    let class = json!({"metadata": {"name": "high"}, "value": 1000});
    cluster.create::<k8s_openapi::api::scheduling::v1::PriorityClass>(class);
    cluster.create::<Pod>(pod("effort", json!({}), json!({})));
    assert!(refusal::<Pod>(&cluster.api, pod("more", json!({}), json!({}))).contains("exceeded quota: q"));
    cluster.create::<Pod>(pod("asks", json!({"cpu": "3"}), json!({})));
    let mut high = pod("high", json!({"cpu": "600m"}), json!({}));
    high["spec"]["priorityClassName"] = json!("high");
    cluster.create::<Pod>(high.clone());
    high["metadata"]["name"] = json!("higher");
    assert!(
        refusal::<Pod>(&cluster.api, high)
            .contains("exceeded quota: urgent, requested: cpu=600m, used: cpu=600m")
    );
    cluster.settle().await;
    assert_eq!((used(&cluster.api, "q"), used(&cluster.api, "urgent")), ("pods=1".into(), "cpu=600m".into()));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_tells_of_the_quota_and_goes_on_when_there_is_room_quo_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<ResourceQuota>(quota(json!({"pods": "2"})));
    cluster.create::<Deployment>(deployment("web", 3, 1, 0));
    cluster.run().await;
    assert_eq!(cluster.pods().len(), 2);
    let set = cluster.api.list_as::<ReplicaSet>(None).remove(0);
    let failure = set.status.iter().flat_map(|s| s.conditions.iter().flatten()).next().unwrap().clone();
    assert_eq!(
        (failure.type_.as_deref(), failure.reason.as_deref()),
        (Some("ReplicaFailure"), Some("FailedCreate"))
    );
    let message = failure.message.unwrap();
    let expected = "is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2";
    assert!(message.starts_with("pods \"web-") && message.ends_with(expected), "{message}");
    assert!(cluster.events("FailedCreate")[0].starts_with("Error creating: pods \"web-"));
    cluster.change::<ResourceQuota>("q", |q| {
        q.spec.as_mut().unwrap().hard = serde_json::from_value(json!({"pods": "3"})).unwrap();
    });
    cluster.pass(1000).await;
    cluster.run().await;
    assert_eq!((cluster.pods().len(), used(&cluster.api, "q")), (3, "pods=3".into()));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_plugin_can_be_switched_off_by_its_name_api_9() {
    let config = ApiConfig { disabled_admission: vec!["ResourceQuota".into()], ..ApiConfig::default() };
    let api = Api::new(Store::ephemeral(), Clock::starting_at(jiff::Timestamp::UNIX_EPOCH), config);
    let create = |kind: Kind, manifest: Value| {
        api.create(Object::from_value(kind, manifest).unwrap(), &WriteOptions::default()).unwrap()
    };
    create(
        Kind::Namespace,
        json!({"metadata": {"name": "default",
        "annotations": {"scheduler.alpha.kubernetes.io/node-selector": "zone=a"}}}),
    );
    create(Kind::ResourceQuota, quota(json!({"pods": "0"})));
    let made = create(Kind::Pod, pod("p", json!({}), json!({})));
    assert_eq!(
        made.get::<Pod>().unwrap().spec.as_ref().unwrap().node_selector.as_ref().unwrap()["zone"],
        "a"
    );
    let mut other_zone = pod("q", json!({}), json!({}));
    other_zone["spec"]["nodeSelector"] = json!({"zone": "b"});
    assert_eq!(
        refusal::<Pod>(&api, other_zone),
        "pods \"q\" is forbidden: pod node label selector conflicts with its namespace node label selector"
    );
}
