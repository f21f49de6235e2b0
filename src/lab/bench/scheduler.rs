//! The scheduler (PERF-3): pods per second from created to bound, through the API in this process.
//!
//! Nodes are objects without kubelets, as in Kubernetes' own scheduler benchmark, whose figures are printed for
//! comparison.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{Node, NodeStatus, Pod};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::report::Report;
use api::{Api, ApiConfig, ChangeKind, DeleteOptions, Visibility, WriteOptions};
use base::clock::Clock;
use base::task::Tasks;
use object::owner::is_terminating;
use object::{Key, Kind, Object, SharedObject};
use reconcile::{Caches, ignore_gone};
use scheduler::{Scheduler, SchedulerConfig};
use store::Store;

/// One row of the benchmark.
struct Case {
    name: &'static str,
    nodes: usize,
    /// Number of pods that are scheduled before the measurement.
    before: usize,
    pods: usize,
    /// The figure of Kubernetes 1.20's own benchmark, in pods per second, on a machine of this size; `None` if that
    /// benchmark has no such case.
    peer: Option<f64>,
    old: fn(usize) -> Value,
    new: fn(usize) -> Value,
}

const PODS: usize = 5000;

const CASES: &[Case] = &[
    case("basic, 500 nodes", 500, Some(143.0), basic),
    case("basic, 1 000 nodes", 1000, None, basic),
    case("basic, 5 000 nodes", 5000, Some(125.0), basic),
    case("spread over zones, 500 nodes", 500, Some(143.0), zones),
    case("spread over zones, 5 000 nodes", 5000, None, zones),
    case("spread over nodes, 500 nodes", 500, None, hosts),
    case("spread over nodes, 5 000 nodes", 5000, None, hosts),
    case("anti-affinity, 5 000 nodes", 5000, None, apart),
    case("affinity, 500 nodes", 500, None, together),
    Case {
        name: "preemption, 500 nodes",
        nodes: 500,
        before: 2000,
        pods: 500,
        peer: Some(20.0),
        old: unimportant,
        new: important,
    },
];

const fn case(name: &'static str, nodes: usize, peer: Option<f64>, new: fn(usize) -> Value) -> Case {
    Case { name, nodes, before: 0, pods: PODS, peer, old: basic, new }
}

fn pod(name: &str, n: usize, labels: &Value, cpu: &str, more: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{name}-{n}"), "namespace": "default", "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "pause",
            "resources": {"requests": {"cpu": cpu, "memory": "100Mi"}}}]}});
    if let (Some(spec), Value::Object(more)) = (pod["spec"].as_object_mut(), more) {
        spec.extend(more);
    }
    pod
}

fn basic(n: usize) -> Value {
    pod("basic", n, &json!({"app": "basic"}), "20m", json!({}))
}

fn spread(n: usize, key: &str) -> Value {
    let constraint = json!([{"maxSkew": 5, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}}}]);
    pod("spread", n, &json!({"app": "spread"}), "20m", json!({"topologySpreadConstraints": constraint}))
}

fn zones(n: usize) -> Value {
    spread(n, "topology.kubernetes.io/zone")
}

fn hosts(n: usize) -> Value {
    spread(n, "kubernetes.io/hostname")
}

fn affine(n: usize, kind: &str, key: &str, group: &str) -> Value {
    let mut affinity = json!({});
    affinity[kind]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!([{"topologyKey": key, "labelSelector": {"matchLabels": {"group": group}}}]);
    pod("affine", n, &json!({"group": group}), "20m", json!({"affinity": affinity}))
}

/// A pod with anti-affinity to the others: it needs a node without any of them.
fn apart(n: usize) -> Value {
    affine(n, "podAntiAffinity", "kubernetes.io/hostname", "apart")
}

/// A pod with affinity to the others: it must be in their zone.
fn together(n: usize) -> Value {
    affine(n, "podAffinity", "topology.kubernetes.io/zone", "together")
}

fn unimportant(n: usize) -> Value {
    pod("low", n, &json!({"app": "low"}), "900m", json!({}))
}

fn important(n: usize) -> Value {
    pod("high", n, &json!({"app": "high"}), "3", json!({"priorityClassName": "high"}))
}

/// Runs every case, each in a cluster of its own.
pub(super) async fn run() -> Result<()> {
    for case in CASES {
        let seconds = measure(case).await?;
        let rate = case.pods as f64 / seconds;
        let name = format!("schedule: {}", case.name);
        match case.peer {
            Some(peer) => Report::beside_recorded(&name, "/s", rate, peer),
            None => Report::alone(&name, "/s", rate),
        }
    }
    Ok(())
}

async fn measure(case: &Case) -> Result<f64> {
    let api = Api::new(Store::ephemeral(), Clock::machine(), ApiConfig::default());
    let tasks = Tasks::new();
    let scheduler = Scheduler::new(&api, &Caches::new(&api, &tasks), SchedulerConfig::default());
    scheduler.run(&tasks);
    create(&api, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}))?;
    create(
        &api,
        json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": "default"}}),
    )?;
    create(
        &api,
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "high"}, "value": 1000}),
    )?;
    for n in 0..case.nodes {
        node(&api, n)?;
    }
    schedule(&api, case.before, case.old).await?;
    let start = Instant::now();
    schedule(&api, case.pods, case.new).await?;
    let seconds = start.elapsed().as_secs_f64();
    tasks.stop().await;
    Ok(seconds)
}

fn create(api: &Api, value: Value) -> Result<()> {
    let object = Object::from_any_value(value).map_err(|error| anyhow::anyhow!("{error}"))?;
    api.create(object, &WriteOptions::default())?;
    Ok(())
}

fn node(api: &Api, n: usize) -> Result<()> {
    let name = format!("node-{n}");
    create(
        api,
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {
        "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("zone-{}", n % 3)}}}),
    )?;
    let capacity = json!({"cpu": "4", "memory": "32Gi", "pods": "110"});
    let status: NodeStatus = serde_json::from_value(json!({"capacity": capacity, "allocatable": capacity}))?;
    api.modify_status::<Node>(&Key::new("", &name), |node| {
        node.status = Some(status.clone());
        Ok(())
    })?;
    Ok(())
}

/// Removes a deleted pod, in place of the kubelet, which does not exist here.
fn end(api: &Api, pod: &SharedObject<Pod>) -> Result<()> {
    let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::uid(pod.uid()) };
    Ok(ignore_gone(api.delete(Kind::Pod, &pod.key(), &now))?)
}

/// Creates pods in a task of its own, concurrently with the scheduler, and waits until all are bound.
async fn schedule(api: &Api, count: usize, of: fn(usize) -> Value) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let mut watcher = api.watch(Kind::Pod, api.revision(), Visibility::Applied);
    let creator = api.clone();
    let creating: tokio::task::JoinHandle<Result<()>> = tokio::spawn(async move {
        for n in 0..count {
            create(&creator, of(n))?;
            if n % 64 == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    });
    let labels = of(0)["metadata"]["labels"].clone();
    let mut bound = 0;
    while bound < count {
        let changes = tokio::time::timeout(Duration::from_mins(2), watcher.next()).await;
        let changes = changes.context("the scheduler makes no progress")?.context("the watch fell behind")?;
        for change in changes {
            let Some(pod) = SharedObject::<Pod>::from_object(&change.object) else { continue };
            if change.kind == ChangeKind::Modified && is_terminating(&pod.metadata) {
                end(api, &pod)?;
            }
            let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            let before = change.previous.as_ref().and_then(SharedObject::<Pod>::from_object);
            let has_labels = serde_json::to_value(&pod.metadata.labels)? == labels;
            let newly = node(&pod).is_some() && before.is_some_and(|before| node(&before).is_none());
            bound += usize::from(has_labels && newly && change.kind == ChangeKind::Modified);
        }
    }
    match creating.await? {
        Ok(()) => Ok(()),
        Err(error) => bail!("a pod could not be created: {error}"),
    }
}
