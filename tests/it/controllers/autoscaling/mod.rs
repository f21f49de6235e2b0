//! HorizontalPodAutoscalers under simulated load: the tests set the kubelets' measurements (HPA-1).

#![expect(clippy::needless_pass_by_value, reason = "tables of JSON read better without borrows")]

mod failures;
mod metrics;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use podium::api::usage::{NodeUsage, ResourceUsage};
use podium::object::SharedObject;
use podium::object::pod::is_active;
use serde_json::{Value, json};

use super::cluster::{Cluster, NO_NODES, deployment};

/// A Deployment with pods that request 200m of cpu and 100Mi, as in the walkthrough.
fn php_apache(replicas: i32) -> Value {
    let mut php = deployment("php-apache", replicas, 1, 0);
    php["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "200m", "memory": "100Mi"}});
    php
}

fn autoscaler(spec: Value) -> Value {
    let mut value = json!({"metadata": {"name": "php-apache", "namespace": "default"}, "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "php-apache"},
        "minReplicas": 1, "maxReplicas": 10}});
    value["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    value
}

fn cpu(percent: i32) -> Value {
    json!([{"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": percent}}}])
}

/// Pods that have been running for ten minutes.
async fn age_pods(cluster: &Cluster) {
    cluster.run().await;
    for pod in cluster.pods() {
        start(cluster, &pod);
    }
    cluster.pass(600).await;
}

/// Writes a kubelet's status of a pod that starts now.
fn start(cluster: &Cluster, pod: &SharedObject<Pod>) {
    let now = cluster.api.clock().time();
    cluster
        .api
        .modify_status::<Pod>(&pod.key(), |pod| {
            pod.status.get_or_insert_default().start_time.get_or_insert(now.clone());
            Ok(())
        })
        .unwrap();
}

/// Sets the usage of every pod from now on: cpu (in millicores) and memory, by container.
fn set_usage(cluster: &Cluster, of: impl Fn(&Pod) -> Option<(u64, u64)>) {
    let mut pods = BTreeMap::new();
    for pod in cluster.pods() {
        if let Some((millis, bytes)) = of(&pod) {
            let usage = ResourceUsage {
                cpu_nanocores: millis * 1_000_000,
                memory_bytes: bytes,
                ..ResourceUsage::default()
            };
            pods.insert(pod.uid().to_string(), BTreeMap::from([("c".to_string(), usage)]));
        }
    }
    // A measurement expires; these must stay valid for the whole test.
    let (at, window) = (cluster.api.clock().now(), Duration::from_secs(30));
    cluster.api.set_node_usage(
        "n1",
        Some(NodeUsage {
            at,
            reported_at: at,
            window,
            total: ResourceUsage::default(),
            pods,
            pod_cpu_times: BTreeMap::new(),
            volumes: BTreeMap::new(),
        }),
    );
}

/// Lets the autoscaler sync several times while every pod has this load; returns the sizes it chose.
async fn sizes_under_load(cluster: &Cluster, seconds: u64, millis: impl Fn(usize) -> u64) -> Vec<i32> {
    let mut sizes = Vec::new();
    for _ in 0..seconds.div_ceil(15) {
        let count = cluster.pods().iter().filter(|p| is_active(p)).count();
        set_usage(cluster, |_| Some((millis(count), 50 << 20)));
        cluster.pass(15).await;
        cluster.run().await;
        for pod in cluster.pods() {
            start(cluster, &pod);
        }
        let size = cluster.get::<Deployment>("php-apache").spec.replicas.unwrap();
        if sizes.last() != Some(&size) {
            sizes.push(size);
        }
    }
    sizes
}

/// Formats the conditions as `type=status reason`.
fn conditions(cluster: &Cluster) -> Vec<String> {
    let scaler = cluster.get::<HorizontalPodAutoscaler>("php-apache");
    let conditions = scaler.status.as_ref().and_then(|s| s.conditions.clone()).unwrap_or_default();
    conditions
        .iter()
        .map(|c| format!("{}={} {}", c.type_, c.status, c.reason.clone().unwrap_or_default()))
        .collect()
}

fn message(cluster: &Cluster, type_: &str) -> String {
    let scaler = cluster.get::<HorizontalPodAutoscaler>("php-apache");
    let conditions = scaler.status.as_ref().and_then(|s| s.conditions.clone()).unwrap_or_default();
    conditions.into_iter().find(|c| c.type_ == type_).and_then(|c| c.message).unwrap_or_default()
}

/// The page "HorizontalPodAutoscaler Walkthrough": the load rises and falls.
#[tokio::test(start_paused = true)]
async fn the_walkthrough_grows_under_load_and_shrinks_without_hpa_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(php_apache(1));
    age_pods(&cluster).await;
    cluster.create::<HorizontalPodAutoscaler>(autoscaler(json!({"metrics": cpu(50)})));
    // Without load there is nothing to scale.
    assert_eq!(sizes_under_load(&cluster, 30, |_| 1).await, [1]);
    let idle = ["AbleToScale=True ScaleDownStabilized", "ScalingActive=True ValidMetricFound"];
    assert_eq!(conditions(&cluster)[..2], idle);
    assert_eq!(conditions(&cluster)[2], "ScalingLimited=False DesiredWithinRange");
    // A total load of 610m, divided among the existing pods: 305 %, then the result with 7 pods.
    let sizes = sizes_under_load(&cluster, 120, |pods| 610 / pods as u64).await;
    assert_eq!(sizes.last(), Some(&7), "{sizes:?}");
    assert_eq!(sizes.first(), Some(&4), "at most four at the first step: {sizes:?}");
    let scaler = cluster.get::<HorizontalPodAutoscaler>("php-apache");
    let status = scaler.status.as_ref().unwrap();
    assert_eq!((status.current_replicas, status.desired_replicas), (Some(7), 7));
    assert!(status.last_scale_time.is_some());
    let current = &status.current_metrics.as_ref().unwrap()[0].resource.as_ref().unwrap().current;
    assert_eq!(current.average_utilization, Some(43));
    assert_eq!(current.average_value.as_ref().unwrap().0, "87m");
    // The first sync scaled to seven; the later ones, while the new pods start, changed nothing.
    assert_eq!(
        cluster.events("SuccessfulRescale"),
        [
            "New size: 4; reason: cpu resource utilization (percentage of request) above target",
            "New size: 7; reason: "
        ]
    );
    // The load ends: five minutes later the target shrinks.
    assert_eq!(sizes_under_load(&cluster, 240, |_| 0).await, [7]);
    assert_eq!(conditions(&cluster)[0], "AbleToScale=True ScaleDownStabilized");
    assert_eq!(
        message(&cluster, "AbleToScale"),
        "recent recommendations were higher than current one, applying the highest recent recommendation"
    );
    assert_eq!(sizes_under_load(&cluster, 90, |_| 0).await.last(), Some(&1));
    assert_eq!(
        cluster.events("SuccessfulRescale").last().unwrap(),
        "New size: 1; reason: All metrics below target"
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_size_stays_within_its_bounds_and_says_so_hpa_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(php_apache(3));
    age_pods(&cluster).await;
    cluster.create::<HorizontalPodAutoscaler>(autoscaler(
        json!({"metrics": cpu(50), "maxReplicas": 5, "minReplicas": 4}),
    ));
    cluster.settle().await;
    assert_eq!(
        cluster.events("SuccessfulRescale"),
        ["New size: 4; reason: Current number of replicas below Spec.MinReplicas"]
    );
    assert_eq!(sizes_under_load(&cluster, 30, |_| 400).await, [5]);
    assert_eq!(conditions(&cluster)[2], "ScalingLimited=True TooManyReplicas");
    assert_eq!(
        message(&cluster, "ScalingLimited"),
        "the desired replica count is more than the maximum replica count"
    );
    cluster.change::<HorizontalPodAutoscaler>("php-apache", |scaler| scaler.spec.max_replicas = 4);
    cluster.settle().await;
    assert_eq!(
        cluster.events("SuccessfulRescale").last().unwrap(),
        "New size: 4; reason: Current number of replicas above Spec.MaxReplicas"
    );
    // Scaled to zero by hand: the autoscaler is inactive.
    cluster.change::<Deployment>("php-apache", |d| d.spec.replicas = Some(0));
    cluster.pass(16).await;
    assert_eq!(conditions(&cluster)[1], "ScalingActive=False ScalingDisabled");
    assert_eq!(cluster.get::<Deployment>("php-apache").spec.replicas, Some(0));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn fresh_and_unmeasured_pods_are_judged_with_care_hpa_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(php_apache(2));
    age_pods(&cluster).await;
    cluster.create::<HorizontalPodAutoscaler>(autoscaler(json!({"metrics": cpu(50)})));
    // One pod is measured at 150 %: the other counts as idle, and 75 % give three, not six.
    let first = cluster.pods()[0].uid().to_string();
    set_usage(&cluster, |pod| (pod.metadata.uid.as_deref() == Some(&first)).then_some((300, 0)));
    cluster.pass(16).await;
    assert_eq!(cluster.get::<Deployment>("php-apache").spec.replicas, Some(3));
    // The third has just started; however much that takes, it is not load.
    cluster.run().await;
    let now = cluster.api.clock().time();
    let fresh = cluster.pods().into_iter().find(|p| p.status.as_ref().unwrap().start_time.is_none()).unwrap();
    start(&cluster, &fresh);
    cluster
        .api
        .modify_status::<Pod>(&fresh.key(), |pod| {
            pod.status.as_mut().unwrap().conditions = Some(vec![PodCondition {
                type_: "Ready".into(),
                status: "False".into(),
                last_transition_time: Some(now.clone()),
                ..PodCondition::default()
            }]);
            Ok(())
        })
        .unwrap();
    set_usage(&cluster, |pod| {
        Some((if pod.metadata.uid.as_deref() == Some(fresh.uid()) { 5000 } else { 105 }, 0))
    });
    cluster.pass(16).await;
    assert_eq!(cluster.get::<Deployment>("php-apache").spec.replicas, Some(3));
    let scaler = cluster.get::<HorizontalPodAutoscaler>("php-apache");
    let metrics = scaler.status.as_ref().unwrap().current_metrics.clone().unwrap();
    assert_eq!(metrics[0].resource.as_ref().unwrap().current.average_utilization, Some(52));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn memory_by_value_of_one_container_and_rules_of_speed_hpa_1() {
    let cluster = Cluster::start(&["podgc", "nodelifecycle", "statefulset"]);
    let set = json!({"metadata": {"name": "db", "namespace": "default"}, "spec": {"serviceName": "db", "replicas": 2,
        "selector": {"matchLabels": {"app": "db"}}, "template": {"metadata": {"labels": {"app": "db"}},
            "spec": {"containers": [{"name": "c", "image": "db"}]}}}});
    cluster.create::<StatefulSet>(set);
    for name in ["db-0", "db-1"] {
        cluster.create::<Pod>(
            json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": "db"}},
            "spec": {"containers": [{"name": "c", "image": "db"}]}}),
        );
    }
    age_pods(&cluster).await;
    let policy = |value: i32, period: i32| json!([{"type": "Pods", "value": value, "periodSeconds": period}]);
    let scaler = autoscaler(json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"},
        "metrics": [{"type": "ContainerResource", "containerResource": {"name": "memory", "container": "c",
            "target": {"type": "AverageValue", "averageValue": "100Mi"}}}],
        "behavior": {"scaleUp": {"policies": policy(1, 60)}, "scaleDown": {"selectPolicy": "Disabled"}}}));
    set_usage(&cluster, |_| Some((0, 400 << 20)));
    cluster.create::<HorizontalPodAutoscaler>(scaler);
    cluster.settle().await;
    let size = |cluster: &Cluster| cluster.get::<StatefulSet>("db").spec.replicas.unwrap();
    assert_eq!(size(&cluster), 3, "one a minute");
    assert_eq!(conditions(&cluster)[2], "ScalingLimited=True ScaleUpLimit");
    assert_eq!(cluster.events("SuccessfulRescale"), ["New size: 3; reason: memory resource above target"]);
    set_usage(&cluster, |_| Some((0, 400 << 20)));
    cluster.pass(45).await;
    assert_eq!(size(&cluster), 3);
    set_usage(&cluster, |_| Some((0, 400 << 20)));
    cluster.pass(16).await;
    assert_eq!(size(&cluster), 4);
    // Shrinking is switched off, after any time.
    for _ in 0..25 {
        set_usage(&cluster, |_| Some((0, 1)));
        cluster.pass(15).await;
    }
    assert_eq!(size(&cluster), 4);
    assert_eq!(conditions(&cluster)[2], "ScalingLimited=True ScaleDownLimit");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_controller_does_not_shrink_at_once_hpa_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(php_apache(4));
    age_pods(&cluster).await;
    cluster.create::<HorizontalPodAutoscaler>(autoscaler(json!({"metrics": cpu(50)})));
    assert_eq!(sizes_under_load(&cluster, 150, |_| 0).await, [4]);
    cluster.controllers.stop_one("horizontalpodautoscaling").await;
    cluster.controllers.start_one("horizontalpodautoscaling");
    assert_eq!(sizes_under_load(&cluster, 270, |_| 0).await, [4]);
    assert_eq!(sizes_under_load(&cluster, 75, |_| 0).await.last(), Some(&1));
    cluster.stop().await;
}
