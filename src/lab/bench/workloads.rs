//! Workloads of hollow pods: creation, rollout and deletion (PERF-2), and the number of writes for creating a pod.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::StreamExt;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use serde_json::json;
use tokio::time::Instant;

use super::instance::Instance;
use super::report::Report;

/// Limit of the control plane's writes per pod until it is Ready. Writes of the kubelet and of events do not count.
const GOAL_WRITES: f64 = 3.0;
/// Limit of the control plane's processor seconds for 1 000 pods.
const GOAL_PROCESSOR: f64 = 0.3;

pub(super) fn deployment(name: &str, replicas: i32, image: &str) -> Result<Deployment> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}},
                "spec": {"terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "c", "image": image}]}}}}))?)
}

/// Waits until exactly this many replicas exist, all ready and of the newest template. Uses a watch, as
/// `kubectl rollout status` does, because polling would use processor time that is measured.
pub(super) async fn ready(api: &Api<Deployment>, name: &str, replicas: i32) -> Result<()> {
    let is_ready = |found: Option<&Deployment>| {
        let found = found.and_then(|found| Some((found.metadata.generation, found.status.as_ref()?)));
        found.is_some_and(|(generation, status)| {
            let counts = [status.replicas, status.updated_replicas, status.ready_replicas];
            status.observed_generation == generation && counts == [Some(replicas); 3]
        })
    };
    // Boxed because this future is large, and would make every future that contains it large.
    Box::pin(await_condition(api.clone(), name, is_ready)).await?;
    Ok(())
}

/// Polls at a short interval until the condition is true.
async fn until<F: Future<Output = Result<bool>>>(done: impl Fn() -> F) -> Result<()> {
    while !done().await? {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

pub(super) async fn run() -> Result<()> {
    let at_once = thousand().await?;
    in_order(&at_once).await?;
    five_thousand().await?;
    writes().await
}

/// The cost of creating pods, in seconds.
struct CreationCost {
    time: f64,
    processor_time: f64,
}

impl CreationCost {
    async fn by(instance: &Instance, making: impl Future<Output = Result<()>>) -> Result<Self> {
        let (start, worked) = (Instant::now(), instance.processor_time()?);
        making.await?;
        let time = start.elapsed().as_secs_f64();
        let processor_time = instance.processor_time()?.saturating_sub(worked).as_secs_f64();
        Ok(Self { time, processor_time })
    }
}

/// Creates the Deployment `scale` and waits until all replicas are ready.
async fn scale(api: &Api<Deployment>, replicas: i32) -> Result<()> {
    api.create(&PostParams::default(), &deployment("scale", replicas, "nginx")?).await?;
    ready(api, "scale", replicas).await
}

/// Measures the creation, rollout and deletion of 1 000 replicas on 100 nodes.
async fn thousand() -> Result<CreationCost> {
    const REPLICAS: i32 = 1000;
    let instance = Instance::start(&["--nodes", "0", "--hollow-nodes", "100"]).await?;
    let idle = instance.resident_mib()?;
    let client = instance.client().await?;
    let api: Api<Deployment> = Api::default_namespaced(client.clone());
    let made = CreationCost::by(&instance, scale(&api, REPLICAS)).await?;
    Report::beside_recorded("1 000 replicas on 100 hollow nodes, Ready", "s", made.time, 7.7);
    Report::against_limit("  processor time for them", "s", made.processor_time, "goal", GOAL_PROCESSOR);
    let used = instance.resident_mib()?;
    Report::beside_recorded("resident memory at 1 000 pods", "MiB", used, 740.0);
    Report::alone("  of which each pod", "KiB", (used - idle) * 1024.0 / f64::from(REPLICAS));

    let start = Instant::now();
    let change =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:1.27"}]}}}});
    api.patch("scale", &PatchParams::default(), &Patch::Strategic(change)).await?;
    ready(&api, "scale", REPLICAS).await?;
    let seconds = start.elapsed().as_secs_f64();
    Report::against_limit("rollout of 1 000 replicas", "s", seconds, "creating them", made.time);

    let start = Instant::now();
    api.delete("scale", &DeleteParams::foreground()).await?;
    until(|| async { Ok(api.get_opt("scale").await?.is_none()) }).await?;
    let seconds = start.elapsed().as_secs_f64();
    Report::against_limit("foreground deletion of 1 000 replicas", "s", seconds, "creating them", made.time);
    let left = Api::<Pod>::default_namespaced(client).list(&ListParams::default()).await?.items.len();
    Report::alone("  pods left", "", left as f64);
    instance.stop().await?;
    Ok(made)
}

/// Measures the creation of a StatefulSet's 1 000 pods, each of which is created when the previous one is ready.
async fn in_order(at_once: &CreationCost) -> Result<()> {
    const REPLICAS: i32 = 1000;
    let instance = Instance::start(&["--nodes", "0", "--hollow-nodes", "100"]).await?;
    let api: Api<StatefulSet> = Api::default_namespaced(instance.client().await?);
    let set: StatefulSet = serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "ordered"},
        "spec": {"replicas": REPLICAS, "serviceName": "ordered", "selector": {"matchLabels": {"app": "ordered"}},
            "podManagementPolicy": "OrderedReady",
            "template": {"metadata": {"labels": {"app": "ordered"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}}))?;
    let made = CreationCost::by(&instance, async {
        api.create(&PostParams::default(), &set).await?;
        until(|| async {
            Ok(api.get("ordered").await?.status.is_some_and(|s| s.ready_replicas == Some(REPLICAS)))
        })
        .await
    });
    let CreationCost { time, processor_time } = made.await?;
    let name = "StatefulSet of 1 000 in order (podManagementPolicy OrderedReady)";
    Report::against_limit(name, "s", time, "a Deployment", at_once.time);
    Report::against_limit(
        "  processor time for them", "s", processor_time, "a Deployment", at_once.processor_time,
    );
    instance.stop().await
}

/// Measures the creation of 5 000 replicas on 500 nodes.
async fn five_thousand() -> Result<()> {
    const REPLICAS: i32 = 5000;
    let instance = Instance::start(&["--nodes", "0", "--hollow-nodes", "500"]).await?;
    let api: Api<Deployment> = Api::default_namespaced(instance.client().await?);
    let made = CreationCost::by(&instance, scale(&api, REPLICAS)).await?;
    Report::beside_recorded("5 000 replicas on 500 hollow nodes, Ready", "s", made.time, 82.0);
    Report::beside_recorded("  processor time for 1 000 of them", "s", made.processor_time / 5.0, 15.0);
    Report::alone("resident memory at 5 000 pods", "MiB", instance.resident_mib()?);
    instance.stop().await
}

/// Counts the writes for 200 replicas on 20 nodes. In a cluster of its own, because the counting client would disturb
/// the measurement of processor time.
async fn writes() -> Result<()> {
    const REPLICAS: i32 = 200;
    let instance = Instance::start(&["--nodes", "0", "--hollow-nodes", "20"]).await?;
    let client = instance.client().await?;
    let api: Api<Deployment> = Api::default_namespaced(client.clone());
    let events_before = event_writes(&client).await?;
    let (before, changes) = (revision(&client).await?, PodChanges::follow(&client).await?);
    scale(&api, REPLICAS).await?;
    let written = (revision(&client).await? - before) as f64;
    // The control plane writes a pod when it is created and when it is bound; all other writes are the kubelet's.
    let by_kubelet = changes.count().await? as f64 - 2.0 * f64::from(REPLICAS);
    let events = event_writes(&client).await? - events_before;
    let each = |writes: f64| writes / f64::from(REPLICAS);
    let besides = each(written - by_kubelet - events);
    Report::against_limit("writes per pod, without status and events", "", besides, "goal", GOAL_WRITES);
    Report::alone("  writes of its status, each", "", each(by_kubelet));
    Report::alone("  events, each", "", each(events));
    instance.stop().await
}

/// The number of writes of events. A repeated event is one object, and each repetition counts as a write.
async fn event_writes(client: &Client) -> Result<f64> {
    let events: Api<Event> = Api::default_namespaced(client.clone());
    let events = events.list(&ListParams::default()).await?.items;
    Ok(events.iter().map(|event| f64::from(event.count.unwrap_or(1).max(1))).sum())
}

/// The store's revision, which grows by one with every write.
async fn revision(client: &Client) -> Result<i64> {
    let list = Api::<Pod>::default_namespaced(client.clone()).list(&ListParams::default().limit(1)).await?;
    Ok(list.metadata.resource_version.context("a list has a revision")?.parse()?)
}

/// Counts the changes of pods.
struct PodChanges {
    counting: tokio::task::JoinHandle<Result<u64>>,
    last: tokio::sync::watch::Sender<i64>,
    client: Client,
}

impl PodChanges {
    /// Starts to count.
    async fn follow(client: &Client) -> Result<Self> {
        let from = revision(client).await?.to_string();
        let pods: Api<Pod> = Api::default_namespaced(client.clone());
        let mut stream = Box::pin(pods.watch(&WatchParams::default(), &from).await?.boxed());
        let (last, mut until) = tokio::sync::watch::channel(i64::MAX);
        let counting = tokio::spawn(async move {
            let (mut count, mut seen) = (0, 0);
            loop {
                tokio::select! {
                    event = stream.next() => match event.context("the watch goes on")?? {
                        WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) => {
                            count += 1;
                            seen = pod.metadata.resource_version.unwrap_or_default().parse()?;
                        }
                        WatchEvent::Bookmark(_) => {}
                        WatchEvent::Error(error) => anyhow::bail!(error),
                    },
                    _ = until.changed() => {}
                }
                if seen >= *until.borrow() {
                    return Ok(count);
                }
            }
        });
        Ok(Self { counting, last, client: client.clone() })
    }

    /// Returns the number of changes.
    async fn count(self) -> Result<u64> {
        let pods: Api<Pod> = Api::default_namespaced(self.client);
        let newest = pods.list(&ListParams::default()).await?.items.into_iter();
        let newest = newest.filter_map(|p| p.metadata.resource_version?.parse().ok()).max().unwrap_or(0);
        self.last.send_replace(newest);
        self.counting.await?
    }
}
