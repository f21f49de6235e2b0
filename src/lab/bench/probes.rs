//! The cost of a thousand probes a second (POD-5, PERF-5).

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::instance::Instance;
use super::report::Report;
use super::workloads::ready;

const PODS: i32 = 50;
/// Containers of each pod. One of them listens; every container has a liveness and a readiness probe of that port, each
/// once per second.
const CONTAINERS: i32 = 10;
const WINDOW: Duration = Duration::from_secs(10);

fn container(number: i32) -> Value {
    let probe = json!({"tcpSocket": {"port": 80}, "periodSeconds": 1, "failureThreshold": 30});
    let (image, name) =
        if number == 0 { ("nginx", "web".to_owned()) } else { ("pause", format!("c{number}")) };
    json!({"name": name, "image": image, "livenessProbe": probe, "readinessProbe": probe})
}

/// Measures the share of a core that the control plane uses with a thousand probes per second, and without probes.
pub(super) async fn run() -> Result<()> {
    let instance = Instance::start(&["--nodes", "1"]).await?;
    let idle = share(&instance).await?;
    let api: Api<Deployment> = Api::default_namespaced(instance.client().await?);
    let containers: Vec<Value> = (0..CONTAINERS).map(container).collect();
    let deployment = serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "probes"},
        "spec": {"replicas": PODS, "selector": {"matchLabels": {"app": "probes"}},
            "template": {"metadata": {"labels": {"app": "probes"}},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": containers}}}}))?;
    api.create(&PostParams::default(), &deployment).await?;
    ready(&api, "probes", PODS).await?;
    let asking = share(&instance).await?;
    let count = PODS * CONTAINERS * 2;
    Report::alone(&format!("{count} probes a second, of one core"), "%", asking);
    Report::alone("  without them", "%", idle);
    instance.stop().await
}

async fn share(instance: &Instance) -> Result<f64> {
    let before = instance.processor_time()?;
    tokio::time::sleep(WINDOW).await;
    Ok(instance.processor_time()?.saturating_sub(before).as_secs_f64() / WINDOW.as_secs_f64() * 100.0)
}
