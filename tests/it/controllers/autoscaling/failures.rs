//! Events and conditions of an autoscaler that cannot measure or scale (HPA-1), word for word.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde_json::json;

use super::super::cluster::deployment;
use super::{
    Cluster, NO_NODES, age_pods, autoscaler, conditions, cpu, message, php_apache, sizes_under_load,
};

#[tokio::test(start_paused = true)]
async fn an_autoscaler_reports_missing_metrics_and_targets_in_its_conditions_hpa_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<HorizontalPodAutoscaler>(autoscaler(json!({"metrics": cpu(50)})));
    cluster.settle().await;
    assert_eq!(conditions(&cluster), ["AbleToScale=False FailedGetScale"]);
    assert_eq!(
        message(&cluster, "AbleToScale"),
        "the HPA controller was unable to get the target's current scale: deployments.apps \"php-apache\" not found"
    );
    assert_eq!(cluster.events("FailedGetScale"), ["deployments.apps \"php-apache\" not found"]);
    cluster.create::<Deployment>(php_apache(2));
    age_pods(&cluster).await;
    let why = "failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource \
               metrics API";
    assert_eq!(
        conditions(&cluster),
        ["AbleToScale=True SucceededGetScale", "ScalingActive=False FailedGetResourceMetric"]
    );
    assert_eq!(
        message(&cluster, "ScalingActive"),
        format!("the HPA was unable to compute the replica count: {why}")
    );
    assert_eq!(cluster.events("FailedGetResourceMetric"), [why]);
    assert_eq!(
        cluster.events("FailedComputeMetricsReplicas"),
        [format!(
            "invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: {why}"
        )]
    );
    // If some metrics are missing, the target may grow but never shrink.
    let pods_metric = json!({"type": "Pods", "pods": {"metric": {"name": "requests"},
        "target": {"type": "AverageValue", "averageValue": "1k"}}});
    let both = json!([pods_metric, cpu(50)[0]]);
    cluster.change::<HorizontalPodAutoscaler>("php-apache", |scaler| {
        scaler.spec.metrics = serde_json::from_value(both.clone()).unwrap();
    });
    assert_eq!(sizes_under_load(&cluster, 15, |_| 1).await, [2]);
    assert_eq!(conditions(&cluster)[1], "ScalingActive=False FailedGetPodsMetric");
    // By now its events exceed the limit of events for one object (API-11).
    let why = "unable to get metric requests: unable to fetch metrics from custom metrics API: no custom metrics API \
               (custom.metrics.k8s.io) registered";
    assert!(message(&cluster, "ScalingActive").ends_with(why), "{}", message(&cluster, "ScalingActive"));
    assert_eq!(sizes_under_load(&cluster, 30, |_| 200).await.last(), Some(&4));
    assert_eq!(conditions(&cluster)[1], "ScalingActive=True ValidMetricFound");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_without_a_cpu_request_and_ambiguous_selectors_are_reported_hpa_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Deployment>(deployment("php-apache", 1, 1, 0));
    age_pods(&cluster).await;
    cluster.create::<HorizontalPodAutoscaler>(autoscaler(json!({"metrics": cpu(50)})));
    sizes_under_load(&cluster, 15, |_| 100).await;
    let pod = cluster.pods()[0].name().to_string();
    assert_eq!(
        message(&cluster, "ScalingActive"),
        format!(
            "the HPA was unable to compute the replica count: failed to get cpu utilization: missing request for cpu in \
             container c of Pod {pod}"
        )
    );
    let mut rival = autoscaler(json!({"metrics": cpu(50)}));
    rival["metadata"]["name"] = json!("rival");
    cluster.create::<HorizontalPodAutoscaler>(rival);
    cluster.pass(16).await;
    let ambiguous = "pods by selector app=php-apache are controlled by multiple HPAs: [{php-apache default} {rival default}]";
    assert_eq!(message(&cluster, "ScalingActive"), ambiguous);
    assert_eq!(cluster.events("AmbiguousSelector"), [ambiguous, ambiguous], "each says so");
    cluster.stop().await;
}
