//! The parts "Support for … container resource metrics", "multiple metrics", "tolerance" and "Implicit
//! maintenance-mode deactivation" of the page "Horizontal Pod Autoscaling" (HPA-1).

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use podium::api::usage::{NodeUsage, ResourceUsage};
use serde_json::{Value, json};

use super::{
    Cluster, NO_NODES, age_pods, autoscaler, conditions, cpu, message, php_apache, set_usage,
    sizes_under_load,
};

fn size(cluster: &Cluster) -> i32 {
    cluster.get::<Deployment>("php-apache").spec.replicas.unwrap()
}

fn memory(amount: &str) -> Value {
    json!({"type": "Resource", "resource": {"name": "memory",
        "target": {"type": "AverageValue", "averageValue": amount}}})
}

#[tokio::test(start_paused = true)]
async fn the_metric_that_asks_for_most_decides_hpa_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(php_apache(2));
    age_pods(&cluster).await;
    set_usage(&cluster, |_| Some((150, 60 << 20)));
    // 75 % with a target of 50 % gives three pods, 60Mi with a target of 40Mi three as well, with 30Mi four.
    cluster.create::<HorizontalPodAutoscaler>(autoscaler(json!({"metrics": [cpu(50)[0], memory("30Mi")]})));
    cluster.settle().await;
    assert_eq!(size(&cluster), 4);
    assert_eq!(cluster.events("SuccessfulRescale"), ["New size: 4; reason: memory resource above target"]);
    let status = cluster.get::<HorizontalPodAutoscaler>("php-apache").status.clone().unwrap();
    let current: Vec<_> = status
        .current_metrics
        .unwrap()
        .into_iter()
        .map(|m| m.resource.unwrap())
        .map(|r| (r.name, r.current.average_utilization, r.current.average_value.unwrap().0))
        .collect();
    assert_eq!(
        current,
        [("cpu".into(), Some(75), "150m".into()), ("memory".into(), None, "62914560".to_string())]
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_container_s_metric_leaves_the_sidecar_out_hpa_1() {
    let cluster = Cluster::start(NO_NODES);
    let mut php = php_apache(2);
    let containers = php["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap();
    containers.push(json!({"name": "logs", "image": "i", "resources": {"requests": {"cpu": "800m"}}}));
    cluster.create::<Deployment>(php);
    age_pods(&cluster).await;
    let usage = |millis: u64| ResourceUsage {
        cpu_nanocores: millis * 1_000_000,
        memory_bytes: 1,
        ..ResourceUsage::default()
    };
    let measure = || {
        let of_pod = BTreeMap::from([("c".to_string(), usage(180)), ("logs".to_string(), usage(20))]);
        let pods = cluster.pods().iter().map(|pod| (pod.uid().to_string(), of_pod.clone())).collect();
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
    };
    measure();
    // The pod as a whole is at a fifth of its requests, the application at nine tenths.
    let of_container = |container: &str| {
        json!([{"type": "ContainerResource", "containerResource": {"name": "cpu", "container": container,
            "target": {"type": "Utilization", "averageUtilization": 60}}}])
    };
    cluster.create::<HorizontalPodAutoscaler>(autoscaler(json!({"metrics": of_container("c")})));
    cluster.settle().await;
    assert_eq!(size(&cluster), 3);
    let reason =
        "New size: 3; reason: cpu container resource utilization (percentage of request) above target";
    assert_eq!(cluster.events("SuccessfulRescale"), [reason]);
    cluster.change::<HorizontalPodAutoscaler>("php-apache", |scaler| {
        scaler.spec.metrics = serde_json::from_value(of_container("gone")).unwrap();
    });
    measure();
    cluster.settle().await;
    assert_eq!(conditions(&cluster)[1], "ScalingActive=False FailedGetContainerResourceMetric");
    let why = message(&cluster, "ScalingActive");
    let expected = "the HPA was unable to compute the replica count: failed to get cpu utilization: unable to \
                    get metrics for resource cpu: failed to get container metrics: container gone not present in \
                    metrics for pod default/php-apache-";
    assert!(why.starts_with(expected), "{why}");
    assert_eq!(size(&cluster), 3);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_direction_may_have_its_own_tolerance_and_least_size_hpa_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(php_apache(4));
    age_pods(&cluster).await;
    let calm = json!({"metrics": cpu(50), "minReplicas": 3, "behavior": {
        "scaleUp": {"tolerance": "0.5"},
        "scaleDown": {"tolerance": "0", "stabilizationWindowSeconds": 0}}});
    cluster.create::<HorizontalPodAutoscaler>(autoscaler(calm));
    assert_eq!(sizes_under_load(&cluster, 30, |_| 148).await, [4], "74 % is within the half above fifty");
    assert_eq!(sizes_under_load(&cluster, 15, |_| 152).await, [7], "76 % is not");
    assert_eq!(sizes_under_load(&cluster, 330, |_| 102).await, [7], "until the new ones count");
    // A little below is enough to shrink, and with no window it is done at once.
    assert_eq!(sizes_under_load(&cluster, 30, |_| 84).await, [6]);
    assert_eq!(sizes_under_load(&cluster, 30, |_| 1).await, [3]);
    assert_eq!(conditions(&cluster)[2], "ScalingLimited=True TooFewReplicas");
    let least = "the desired replica count is less than the minimum replica count";
    assert_eq!(message(&cluster, "ScalingLimited"), least);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_target_scaled_to_zero_stays_until_a_user_scales_it_up_hpa_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(php_apache(2));
    age_pods(&cluster).await;
    cluster.create::<HorizontalPodAutoscaler>(autoscaler(json!({"metrics": cpu(50), "minReplicas": 2})));
    assert_eq!(sizes_under_load(&cluster, 15, |_| 100).await, [2]);
    cluster.change::<Deployment>("php-apache", |d| d.spec.replicas = Some(0));
    cluster.run().await;
    cluster.pass(600).await;
    assert_eq!(size(&cluster), 0);
    assert_eq!(conditions(&cluster)[1], "ScalingActive=False ScalingDisabled");
    let message_of = "scaling is disabled since the replica count of the target is zero";
    assert_eq!(message(&cluster, "ScalingActive"), message_of);
    let status = cluster.get::<HorizontalPodAutoscaler>("php-apache").status.clone().unwrap();
    assert_eq!((status.current_replicas, status.desired_replicas), (Some(0), 0));
    cluster.change::<Deployment>("php-apache", |d| d.spec.replicas = Some(1));
    assert_eq!(sizes_under_load(&cluster, 60, |_| 100).await, [2], "the least there may be");
    assert_eq!(conditions(&cluster)[1], "ScalingActive=True ValidMetricFound");
    cluster.stop().await;
}
