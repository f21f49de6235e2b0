//! The load for the console's measurements: pods on hollow nodes, their events, and changes of both.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::bench::workloads::ready;
use base::clock::Clock;

/// Maximum number of pods of one Deployment.
const REPLICAS: usize = 1000;
/// Number of concurrent requests.
const CLIENTS: usize = 32;
/// Number of concurrent changes.
const IN_FLIGHT: usize = 128;
/// Number of objects that are changed in turn.
const CHANGED: usize = 4000;

/// Prefix of the pods' names.
pub(super) const NAME: &str = "bench-";

/// A Deployment with typical labels and this many pods.
fn deployment(name: &str, replicas: usize) -> Result<Deployment> {
    let labels = json!({"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "bench", "tier": "web"});
    Ok(serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "template": {"metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [{
                    "name": "web", "image": "nginx:1.27", "ports": [{"containerPort": 8080, "name": "http"}],
                    "env": [{"name": "MODE", "value": "bench"},
                        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                    "resources": {"requests": {"cpu": "1m", "memory": "1Mi"},
                        "limits": {"cpu": "100m", "memory": "64Mi"}}}]}}}}))?)
}

/// Creates pods until there are `to`, and waits until all are ready.
pub(super) async fn grow(client: &Client, from: usize, to: usize) -> Result<()> {
    let api: Api<Deployment> = Api::default_namespaced(client.clone());
    let mut there = from;
    while there < to {
        let (name, replicas) = (format!("{NAME}{there}"), REPLICAS.min(to - there));
        api.create(&PostParams::default(), &deployment(&name, replicas)?).await?;
        ready(&api, &name, i32::try_from(replicas)?).await?;
        there += replicas;
    }
    Ok(())
}

/// Deletes all events.
pub(super) async fn forget_events(client: &Client) -> Result<()> {
    let api: Api<Event> = Api::default_namespaced(client.clone());
    api.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    Ok(())
}

/// An event as a kubelet writes it.
fn event(n: usize, pod: &Pod, time: &str) -> Result<Event> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let (reason, message) = match n % 3 {
        0 => ("Pulled", format!("Container image \"nginx:1.27\" already present on machine of {name}")),
        1 => ("Created", "Created container: web".to_owned()),
        _ => ("Started", "Started container web".to_owned()),
    };
    Ok(serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{name}.{n:016x}"), "namespace": pod.metadata.namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": pod.metadata.namespace,
            "uid": pod.metadata.uid, "fieldPath": "spec.containers{web}"},
        "reason": reason, "message": message, "type": "Normal", "count": 1,
        "firstTimestamp": time, "lastTimestamp": time,
        "source": {"component": "kubelet", "host": node}, "reportingComponent": "kubelet",
        "reportingInstance": node.unwrap_or_default()}))?)
}

/// Returns the first pods, for events and changes.
async fn some_pods(client: &Client) -> Result<Vec<Pod>> {
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    let pods = api.list(&ListParams::default().limit(u32::try_from(CHANGED)?)).await?.items;
    if pods.is_empty() {
        bail!("there are no pods");
    }
    Ok(pods)
}

/// Creates this many events.
pub(super) async fn create_events(client: &Client, events: usize) -> Result<()> {
    let pods = some_pods(client).await?;
    // The events have the current time, since the server would delete old ones.
    let time = Clock::machine().now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let made = futures::stream::iter(0..events).map(|n| {
        let api: Api<Event> = Api::default_namespaced(client.clone());
        let event = event(n, &pods[n % pods.len()], &time);
        async move {
            api.create(&PostParams::default(), &event?).await?;
            Ok::<_, anyhow::Error>(())
        }
    });
    made.buffer_unordered(CLIENTS).try_collect().await
}

/// Changes that continue until `end` is called.
pub(super) struct Changes {
    workers: JoinSet<Result<()>>,
    work: Arc<LoadPlan>,
}

impl Changes {
    /// Makes this many changes per second, alternating between a repetition of an event and a change of a pod's label.
    pub(super) async fn start(client: &Client, each_second: u32) -> Result<Self> {
        let pods: Vec<String> = names(some_pods(client).await?);
        let events: Api<Event> = Api::default_namespaced(client.clone());
        let events = events.list(&ListParams::default().limit(u32::try_from(CHANGED)?)).await?.items;
        let events: Vec<String> = names(events);
        let work = Arc::new(LoadPlan {
            client: client.clone(),
            pods,
            events,
            each_second: f64::from(each_second),
            since: Instant::now(),
            next: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
        });
        let mut workers = JoinSet::new();
        for _ in 0..IN_FLIGHT {
            let work = work.clone();
            workers.spawn(async move { work.go_on().await });
        }
        Ok(Self { workers, work })
    }

    /// Stops the changes, and returns their rate per second.
    pub(super) fn end(mut self) -> Result<f64> {
        let work = &self.work;
        let rate = work.done.load(Ordering::Relaxed) as f64 / work.since.elapsed().as_secs_f64();
        // Workers run until they are cancelled, so one that has ended has failed.
        match self.workers.try_join_next() {
            Some(ended) => ended?.map(|()| rate),
            None => Ok(rate),
        }
    }
}

/// The objects to change, and the progress of the changes.
struct LoadPlan {
    client: Client,
    pods: Vec<String>,
    events: Vec<String>,
    each_second: f64,
    since: Instant,
    next: AtomicUsize,
    done: AtomicUsize,
}

impl LoadPlan {
    /// Runs a worker: makes one change after the other, each at its scheduled time. If the server lags, the number of
    /// concurrent changes is at most that of the workers.
    async fn go_on(&self) -> Result<()> {
        loop {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            let after = Duration::from_secs_f64(n as f64 / self.each_second);
            tokio::time::sleep_until(self.since + after).await;
            change(&self.client, &self.pods, &self.events, n).await?;
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn names<K: kube::Resource>(objects: Vec<K>) -> Vec<String> {
    objects.into_iter().filter_map(|object| object.meta().name.clone()).collect()
}

/// Makes the change of this number.
async fn change(client: &Client, pods: &[String], events: &[String], n: usize) -> Result<()> {
    let (turn, params) = (n / 2, PatchParams::default());
    if let Some(name) = events.get(turn % events.len().max(1)).filter(|_| n.is_multiple_of(2)) {
        let api: Api<Event> = Api::default_namespaced(client.clone());
        let patch = json!({"count": turn / events.len() + 2});
        api.patch(name, &params, &Patch::Merge(patch)).await?;
    } else {
        let api: Api<Pod> = Api::default_namespaced(client.clone());
        let patch = json!({"metadata": {"labels": {"turn": turn.to_string()}}});
        api.patch(&pods[turn % pods.len()], &params, &Patch::Merge(patch)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_objects_are_accepted_by_the_api_con_1() {
        let made = deployment("bench-0", 7).unwrap();
        assert_eq!(made.spec.replicas, Some(7));
        let pod = Pod { metadata: made.metadata, ..Pod::default() };
        for n in 0..3 {
            let event = event(n, &pod, "2026-01-01T00:00:00Z").unwrap();
            assert_eq!(event.involved_object.name.as_deref(), Some("bench-0"));
        }
    }
}
