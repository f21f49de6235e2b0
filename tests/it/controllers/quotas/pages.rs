//! The pages "Resource Quotas" and "Limit Ranges" with their tasks (QUO-1): classes, changes of a quota, and
//! both together.

use k8s_openapi::api::core::v1::{LimitRange, PersistentVolumeClaim, Pod, ResourceQuota};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use podium::api::{DeleteOptions, WriteOptions};
use podium::object::{Kind, Object};
use serde_json::{Value, json};

use super::{Cluster, NO_NODES, key, pod, quota, refusal, used};

fn range(cluster: &Cluster, limits: &Value) {
    let range = json!({"metadata": {"name": "r", "namespace": "default"}, "spec": {"limits": limits}});
    cluster.create::<LimitRange>(range);
}

/// Requests and limits of a new pod's container.
fn resources(cluster: &Cluster, pod: Value) -> Value {
    let made = cluster.create::<Pod>(pod);
    serde_json::to_value(&made.spec.as_ref().unwrap().containers[0].resources).unwrap()
}

/// The example of the part "Resource quota per PriorityClass".
#[tokio::test(start_paused = true)]
async fn each_class_has_a_quota_of_its_own_quo_1() {
    let cluster = Cluster::start(NO_NODES);
    for (class, cpu, memory, pods) in
        [("high", "1k", "200Gi", 10), ("medium", "10", "20Gi", 10), ("low", "5", "10Gi", 1)]
    {
        cluster.create::<PriorityClass>(json!({"metadata": {"name": class}, "value": pods}));
        let mut quota = quota(json!({"cpu": cpu, "memory": memory, "pods": pods.to_string()}));
        quota["metadata"]["name"] = json!(format!("pods-{class}"));
        quota["spec"]["scopeSelector"] = json!({"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "In", "values": [class]}]});
        cluster.create::<ResourceQuota>(quota);
    }
    cluster.settle().await;
    let of_class = |name: &str, class: &str| {
        let ask = json!({"memory": "10Gi", "cpu": "500m"});
        let mut pod = pod(name, ask.clone(), ask);
        pod["spec"]["priorityClassName"] = json!(class);
        pod
    };
    cluster.create::<Pod>(of_class("high-priority", "high"));
    assert_eq!(used(&cluster.api, "pods-high"), "cpu=500m memory=10Gi pods=1");
    for other in ["pods-medium", "pods-low"] {
        assert_eq!(used(&cluster.api, other), "cpu=0 memory=0 pods=0");
    }
    cluster.create::<Pod>(of_class("low-priority", "low"));
    assert_eq!(
        refusal::<Pod>(&cluster.api, of_class("another", "low")),
        "pods \"another\" is forbidden: exceeded quota: pods-low, requested: memory=10Gi,pods=1, used: \
         memory=10Gi,pods=1, limited: memory=10Gi,pods=1"
    );
    // A pod without a class counts in no quota.
    cluster.create::<Pod>(pod("plain", json!({}), json!({})));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_quota_that_is_lowered_takes_nothing_away_quo_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<ResourceQuota>(quota(json!({"pods": "3"})));
    for name in ["a", "b", "c"] {
        cluster.create::<Pod>(pod(name, json!({}), json!({})));
    }
    let allow = |pods: &str| {
        cluster.change::<ResourceQuota>("q", |q| {
            q.spec.as_mut().unwrap().hard = serde_json::from_value(json!({"pods": pods})).unwrap();
        });
    };
    allow("1");
    cluster.settle().await;
    assert_eq!((cluster.pods().len(), used(&cluster.api, "q").as_str()), (3, "pods=3"));
    let hard = cluster.get::<ResourceQuota>("q").status.as_ref().unwrap().hard.clone().unwrap();
    assert_eq!(hard["pods"].0, "1");
    for (name, left) in [("a", 2), ("b", 1)] {
        cluster.api.delete(Kind::Pod, &key(name), &DeleteOptions::default()).unwrap();
        cluster.settle().await;
        assert_eq!(used(&cluster.api, "q"), format!("pods={left}"));
        let refused = refusal::<Pod>(&cluster.api, pod("d", json!({}), json!({})));
        assert!(
            refused.ends_with(&format!("requested: pods=1, used: pods={left}, limited: pods=1")),
            "{refused}"
        );
    }
    allow("2");
    cluster.create::<Pod>(pod("d", json!({}), json!({})));
    // With two quotas, both must allow the pod.
    let mut tight = quota(json!({"count/pods": "2"}));
    tight["metadata"]["name"] = json!("tight");
    cluster.create::<ResourceQuota>(tight);
    allow("9");
    assert!(refusal::<Pod>(&cluster.api, pod("e", json!({}), json!({}))).contains("exceeded quota: tight, "));
    assert_eq!(used(&cluster.api, "q"), "pods=2", "the other was not charged");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_range_says_for_a_pod_what_a_quota_wants_to_know_quo_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<ResourceQuota>(quota(json!({"limits.cpu": "2", "requests.memory": "1Gi"})));
    let silent = || pod("silent", json!({}), json!({}));
    assert_eq!(
        refusal::<Pod>(&cluster.api, silent()),
        "pods \"silent\" is forbidden: failed quota: q: must specify limits.cpu for: c; requests.memory for: c"
    );
    range(
        &cluster,
        &json!([{"type": "Container", "default": {"cpu": "1"},
            "defaultRequest": {"cpu": "500m", "memory": "600Mi"}}]),
    );
    cluster.create::<Pod>(silent());
    assert_eq!(used(&cluster.api, "q"), "limits.cpu=1 requests.memory=600Mi", "defaulted amounts count");
    let refused = refusal::<Pod>(&cluster.api, pod("second", json!({}), json!({})));
    assert!(
        refused.contains("exceeded quota: q, requested: requests.memory=600Mi, used: requests.memory=600Mi")
    );
    cluster.stop().await;
}

/// The pages "Configure Default CPU Requests and Limits for a Namespace" and the conflict of "Limit Ranges".
#[tokio::test(start_paused = true)]
async fn the_requests_and_limits_of_a_container_override_limit_range_defaults_quo_1() {
    let cluster = Cluster::start(NO_NODES);
    range(
        &cluster,
        &json!([{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}}]),
    );
    for (name, requests, limits, expected) in [
        ("neither", json!({}), json!({}), json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}})),
        ("limit", json!({}), json!({"cpu": "2"}), json!({"limits": {"cpu": "2"}, "requests": {"cpu": "2"}})),
        (
            "request",
            json!({"cpu": "750m"}),
            json!({}),
            json!({"limits": {"cpu": "1"}, "requests": {"cpu": "750m"}}),
        ),
    ] {
        assert_eq!(resources(&cluster, pod(name, requests, limits)), expected, "{name}");
    }
    let torn = Object::from_value(Kind::Pod, pod("torn", json!({"cpu": "1500m"}), json!({}))).unwrap();
    let torn = cluster.api.create(torn, &WriteOptions::default()).unwrap_err();
    assert_eq!(torn.code(), 422);
    assert_eq!(
        torn.to_string(),
        "Pod \"torn\" is invalid: spec.containers[0].resources.requests: Invalid value: \"1500m\": must be less than or \
         equal to cpu limit of 1"
    );
    // A limit range applies only to later pods.
    let before = cluster.get::<Pod>("neither");
    cluster.api.delete(Kind::LimitRange, &key("r"), &DeleteOptions::default()).unwrap();
    range(&cluster, &json!([{"type": "Container", "max": {"cpu": "100m"}}]));
    cluster.settle().await;
    assert_eq!(cluster.get::<Pod>("neither").object().revision(), before.object().revision());
    cluster.stop().await;
}

/// The pages "Configure Minimum and Maximum CPU Constraints" and "Limit Storage Consumption".
#[tokio::test(start_paused = true)]
async fn a_range_bounds_containers_pods_ratios_and_claims_quo_1() {
    let cluster = Cluster::start(NO_NODES);
    range(
        &cluster,
        &json!([
            {"type": "Container", "max": {"cpu": "800m"}, "min": {"cpu": "200m"}},
            {"type": "Pod", "max": {"memory": "1Gi"}, "maxLimitRequestRatio": {"memory": "2"}},
            {"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}, "min": {"storage": "1Gi"}}]),
    );
    let memory = |request: &str, limit: &str| (json!({"memory": request}), json!({"memory": limit}));
    let cpu = |request: &str, limit: &str| {
        (json!({"cpu": request, "memory": "1Mi"}), json!({"cpu": limit, "memory": "1Mi"}))
    };
    for ((requests, limits), why) in [
        (cpu("500m", "1500m"), "maximum cpu usage per Container is 800m, but limit is 1500m"),
        (cpu("100m", "800m"), "minimum cpu usage per Container is 200m, but request is 100m"),
        (memory("1Gi", "2Gi"), "maximum memory usage per Pod is 1Gi, but limit is 2Gi"),
        (
            memory("100Mi", "300Mi"),
            "memory max limit to request ratio per Pod is 2, but provided ratio is 3.000000",
        ),
    ] {
        let refused = refusal::<Pod>(&cluster.api, pod("p", requests, limits));
        assert_eq!(refused, format!("pods \"p\" is forbidden: {why}"));
    }
    let (requests, limits) = cpu("500m", "800m");
    cluster.create::<Pod>(pod("p", requests, limits));
    let claim = |name: &str, size: &str| {
        json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}}}})
    };
    assert_eq!(
        refusal::<PersistentVolumeClaim>(&cluster.api, claim("small", "500Mi")),
        "persistentvolumeclaims \"small\" is forbidden: minimum storage usage per PersistentVolumeClaim is 1Gi, but \
         request is 500Mi"
    );
    cluster.create::<PersistentVolumeClaim>(claim("fits", "1536Mi"));
    cluster.stop().await;
}

/// The pages "Configure Default Memory Requests and Limits" and "Configure Minimum and Maximum Memory Constraints".
#[tokio::test(start_paused = true)]
async fn limit_ranges_fill_in_and_bound_quo_1() {
    let cluster = Cluster::start(NO_NODES);
    let range = |limits: Value| json!({"metadata": {"name": "r", "namespace": "default"}, "spec": {"limits": limits}});
    cluster.create::<LimitRange>(range(json!([
        {"type": "Container", "default": {"memory": "512Mi"}, "defaultRequest": {"memory": "256Mi"},
            "max": {"cpu": "800m"}, "min": {"cpu": "200m"}}])));
    let filled = cluster.create::<Pod>(pod("filled", json!({}), json!({})));
    let resources = serde_json::to_value(&filled.spec.as_ref().unwrap().containers[0].resources).unwrap();
    assert_eq!(
        resources,
        json!({"limits": {"cpu": "800m", "memory": "512Mi"}, "requests": {"cpu": "800m", "memory": "256Mi"}})
    );
    assert_eq!(
        filled.metadata.annotations.as_ref().unwrap()["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for container c"
    );
    assert_eq!(filled.status.as_ref().unwrap().qos_class.as_deref(), Some("Burstable"));
    assert_eq!(
        refusal::<Pod>(&cluster.api, pod("small", json!({"cpu": "100m"}), json!({"cpu": "1"}))),
        "pods \"small\" is forbidden: [minimum cpu usage per Container is 200m, but request is 100m, maximum cpu \
         usage per Container is 800m, but limit is 1]"
    );
    cluster.api.delete(Kind::LimitRange, &key("r"), &DeleteOptions::default()).unwrap();
    cluster.create::<LimitRange>(range(json!([
        {"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}, "min": {"storage": "1Gi"}}])));
    let claim = json!({"metadata": {"name": "c", "namespace": "default"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "5Gi"}}}});
    assert_eq!(
        refusal::<PersistentVolumeClaim>(&cluster.api, claim),
        "persistentvolumeclaims \"c\" is forbidden: maximum storage usage per PersistentVolumeClaim is 2Gi, but \
         request is 5Gi"
    );
    cluster.stop().await;
}
