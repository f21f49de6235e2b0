//! The uses of a cluster, each repeated in a task of its own.
//!
//! A refused request is counted as a failure and skipped, since tasks delete each other's objects, and the soak only
//! checks for leaks.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The kinds of use.
const USES: [&str; 6] = ["rollouts", "jobs", "pod deletions", "events", "configmap updates", "namespaces"];

/// Timeout of a rollout, a job or a namespace; after it, the task moves on.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Interval between two polls.
const LOOK: Duration = Duration::from_millis(100);

/// Size of a ConfigMap, in bytes: so large that a leak of its versions would be visible.
const CONFIG_MAP_BYTES: usize = 20_000;

/// The running tasks.
pub(super) struct Churn {
    tasks: JoinSet<()>,
    counts: Arc<Counts>,
}

/// Numbers of successes and failures of each kind of use.
#[derive(Default)]
pub(super) struct Counts {
    done: [AtomicU64; USES.len()],
    refused: [AtomicU64; USES.len()],
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, name) in USES.iter().enumerate() {
            let done = self.done[number].load(Ordering::Relaxed);
            let refused = self.refused[number].load(Ordering::Relaxed);
            write!(f, "{}{done} {name} ({refused} refused)", if number == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Starts all tasks; they continue until `stop`.
pub(super) fn start(client: &Client, stop: &CancellationToken) -> Churn {
    let counts = Arc::new(Counts::default());
    let mut churn = Churn { tasks: JoinSet::new(), counts };
    churn.repeat(0, client, stop, Duration::ZERO, |client, n| rollout(client, "hollow", 20, n));
    churn.repeat(0, client, stop, Duration::ZERO, |client, n| rollout(client, "real", 4, n));
    churn.repeat(1, client, stop, Duration::ZERO, job);
    churn.repeat(2, client, stop, Duration::from_millis(500), delete_pod);
    churn.repeat(3, client, stop, Duration::from_millis(20), event);
    churn.repeat(4, client, stop, Duration::from_millis(50), config_map);
    churn.repeat(5, client, stop, Duration::from_secs(2), namespace);
    let (client, stop) = (client.clone(), stop.clone());
    churn.tasks.spawn(async move {
        stop.run_until_cancelled(follow(client)).await;
    });
    churn
}

impl Churn {
    /// Repeats one kind of use.
    fn repeat<F: Future<Output = Result<()>> + Send + 'static>(
        &mut self,
        kind: usize,
        client: &Client,
        stop: &CancellationToken,
        pause: Duration,
        once: impl Fn(Client, u64) -> F + Send + 'static,
    ) {
        let (client, stop, counts) = (client.clone(), stop.clone(), self.counts.clone());
        let repeated = async move {
            for n in 0.. {
                let count = match once(client.clone(), n).await {
                    Ok(()) => &counts.done,
                    Err(_) => &counts.refused,
                };
                count[kind].fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(pause.max(Duration::from_millis(1))).await;
            }
        };
        self.tasks.spawn(async move {
            stop.run_until_cancelled(repeated).await;
        });
    }

    /// Waits until all tasks have ended, which must have been requested to stop, and returns the counts.
    pub(super) async fn end(mut self) -> Arc<Counts> {
        while self.tasks.join_next().await.is_some() {}
        self.counts
    }
}

/// Places a test's pods on nodes with processes or on hollow ones.
fn placed(hollow: bool, mut spec: Value) -> Value {
    let operator = if hollow { "NotIn" } else { "In" };
    spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": operator,
            "values": ["node-1", "node-2", "node-3"]}]}]}}});
    spec["terminationGracePeriodSeconds"] = json!(1);
    spec
}

/// Polls until the condition is true or the timeout is over.
async fn until<F: Future<Output = Result<bool>>>(done: impl Fn() -> F) -> Result<()> {
    let looking = async {
        while !done().await? {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    };
    tokio::time::timeout(TIMEOUT, looking).await.context("timed out")?
}

/// Changes the template of a Deployment, which replaces all its replicas.
async fn rollout(client: Client, name: &'static str, replicas: i32, n: u64) -> Result<()> {
    let api: Api<Deployment> = Api::default_namespaced(client);
    let spec = json!({"containers": [{"name": "c", "image": "pause", "env": [{"name": "TURN", "value": n.to_string()}]}]});
    let spec = placed(name == "hollow", spec);
    if n == 0 {
        let new = json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "revisionHistoryLimit": 3,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec}}});
        api.create(&PostParams::default(), &serde_json::from_value(new)?).await?;
    } else {
        let change = json!({"spec": {"template": {"spec": spec}}});
        api.patch(name, &PatchParams::default(), &Patch::Strategic(change)).await?;
    }
    until(|| async {
        let found = api.get(name).await?;
        let generation = found.metadata.generation;
        Ok(found.status.is_some_and(|s| {
            s.observed_generation == generation
                && [s.replicas, s.updated_replicas, s.ready_replicas] == [Some(replicas); 3]
        }))
    })
    .await
}

/// Creates a Job of real processes, waits for its end and deletes it with its pods.
async fn job(client: Client, n: u64) -> Result<()> {
    let api: Api<Job> = Api::default_namespaced(client);
    let name = format!("job-{n}");
    let spec = json!({"restartPolicy": "Never",
        "containers": [{"name": "c", "image": "busybox", "command": ["sh", "-c", "echo done"]}]});
    let new = json!({"metadata": {"name": name},
        "spec": {"completions": 4, "parallelism": 2, "template": {"spec": placed(false, spec)}}});
    api.create(&PostParams::default(), &serde_json::from_value(new)?).await?;
    let ended = until(|| async {
        let status = api.get(&name).await?.status.unwrap_or_default();
        Ok(status.completion_time.is_some())
    });
    let ended = ended.await;
    api.delete(&name, &DeleteParams::background()).await?;
    ended
}

/// Deletes a pod of one of the two Deployments.
async fn delete_pod(client: Client, n: u64) -> Result<()> {
    let api: Api<Pod> = Api::default_namespaced(client);
    let pods = api.list(&ListParams::default().labels("app in (hollow,real)")).await?.items;
    let Some(pod) = pods.get(usize::try_from(n)? % pods.len().max(1)) else { return Ok(()) };
    api.delete(pod.metadata.name.as_deref().context("a pod has a name")?, &DeleteParams::default()).await?;
    Ok(())
}

/// Creates an Event, and deletes an old one, because Events expire only after an hour, which most soaks do not reach.
async fn event(client: Client, n: u64) -> Result<()> {
    const MAX_EVENTS: u64 = 2000;
    let api: Api<Event> = Api::default_namespaced(client);
    let new = json!({"metadata": {"name": format!("soak-{n}")}, "reason": "Soak", "type": "Normal",
        "message": format!("the {n}th of many"), "involvedObject": {"kind": "ConfigMap", "name": "soak-0",
            "namespace": "default"}});
    api.create(&PostParams::default(), &serde_json::from_value(new)?).await?;
    if let Some(oldest) = n.checked_sub(MAX_EVENTS) {
        match api.delete(&format!("soak-{oldest}"), &DeleteParams::default()).await {
            // The server has already deleted this Event, because there are too many newer ones.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            outcome => drop(outcome?),
        }
    }
    Ok(())
}

/// Changes the content of one of a few ConfigMaps.
async fn config_map(client: Client, n: u64) -> Result<()> {
    const HOW_MANY: u64 = 10;
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let name = format!("soak-{}", n % HOW_MANY);
    let text = format!("{n:020}").repeat(CONFIG_MAP_BYTES / 20);
    let content = json!({"metadata": {"name": name}, "data": {"text": text}});
    if n < HOW_MANY {
        api.create(&PostParams::default(), &serde_json::from_value(content)?).await?;
    } else {
        api.patch(&name, &PatchParams::default(), &Patch::Merge(content)).await?;
    }
    Ok(())
}

/// Creates a namespace with an object in it, and deletes it.
async fn namespace(client: Client, n: u64) -> Result<()> {
    let name = format!("soak-{n}");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let new = json!({"metadata": {"name": name}});
    namespaces.create(&PostParams::default(), &serde_json::from_value(new)?).await?;
    let config_maps: Api<ConfigMap> = Api::namespaced(client, &name);
    for n in 0..5 {
        let new = json!({"metadata": {"name": format!("c{n}")}, "data": {"key": "value"}});
        config_maps.create(&PostParams::default(), &serde_json::from_value(new)?).await?;
    }
    namespaces.delete(&name, &DeleteParams::default()).await?;
    until(|| async { Ok(namespaces.get_opt(&name).await?.is_none()) }).await
}

/// Watches all pods and events, as consoles do.
async fn follow(client: Client) {
    let pods = watcher(Api::<Pod>::all(client.clone()), watcher::Config::default()).map_ok(drop);
    let events = watcher(Api::<Event>::all(client), watcher::Config::default()).map_ok(drop);
    let mut both = futures::stream::select(pods.boxed(), events.boxed());
    // The watcher restarts a watch that fails.
    while both.next().await.is_some() {}
}
