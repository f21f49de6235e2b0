//! Clients that record the responses of the cluster: acknowledged writes must persist (SAFE-2), and no later response
//! may contradict an observed state (SAFE-11).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use base::count::counted;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::findings::Findings;
use super::instance::with_timeout;

/// Number of clients that write.
const WRITERS: usize = 2;
/// Interval between two writes of one client.
const BETWEEN: Duration = Duration::from_millis(25);
/// A watch without events for this long is reopened at its last revision.
const SILENCE: Duration = Duration::from_secs(10);
/// Label of all objects of these clients.
const LABEL: &str = "torture=written";

/// The acknowledged writes.
#[derive(Default)]
struct AcknowledgedState {
    created: BTreeSet<String>,
    /// Objects with a requested but unacknowledged deletion: they may exist or not.
    leaving: BTreeSet<String>,
    deleted: BTreeSet<String>,
    /// Highest acknowledged number of each counter.
    counters: BTreeMap<String, u64>,
    /// Highest revision in any response.
    revision: u64,
    writes: u64,
}

/// The acknowledged writes at one moment, which every later state of the cluster must contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Promise {
    created: BTreeSet<String>,
    deleted: BTreeSet<String>,
    counters: BTreeMap<String, u64>,
    revision: u64,
}

/// A state of the cluster, as some source reports it.
pub(super) struct ReportedState<'a> {
    /// The rule that a wrong state breaks.
    pub(super) rule: &'a str,
    /// The source that reports the state.
    pub(super) of: &'a str,
    /// Revision of the state.
    pub(super) at: u64,
    /// The clients' objects in it, with their numbers.
    pub(super) objects: BTreeMap<String, u64>,
}

impl ReportedState<'_> {
    /// Returns name and number if the object belongs to these clients.
    pub(super) fn is_of_clients(object: &ConfigMap) -> Option<(String, u64)> {
        let (key, value) = LABEL.split_once('=')?;
        (object.labels().get(key).map(String::as_str) == Some(value))
            .then(|| (object.name_any(), number(object)))
    }
}

pub(super) struct Clients {
    acknowledged: Arc<Mutex<AcknowledgedState>>,
    view: Arc<Mutex<View>>,
    findings: Findings,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

/// The watcher's view of the objects.
#[derive(Default)]
struct View {
    objects: BTreeMap<String, (u64, u64)>,
    revision: Option<u64>,
    events: u64,
    resumed: u64,
    listed: u64,
}

fn api(client: Client) -> Api<ConfigMap> {
    Api::default_namespaced(client)
}

fn revision(text: Option<&str>) -> Result<u64> {
    Ok(text.context("no resourceVersion")?.parse()?)
}

/// A counter's number; 0 for other objects.
fn number(object: &ConfigMap) -> u64 {
    let text = object.data.as_ref().and_then(|data| data.get("n"));
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn object(name: &str) -> Result<ConfigMap> {
    let object = json!({"metadata": {"name": name, "labels": {"torture": "written"}}, "data": {"n": "0"}});
    Ok(serde_json::from_value(object)?)
}

impl Clients {
    /// Starts the clients; each works whenever there is a control plane to connect to.
    pub(super) fn start(client: &watch::Receiver<Option<Client>>, findings: &Findings) -> Self {
        let (acknowledged, view) = (Arc::default(), Arc::default());
        let mut clients = Self {
            acknowledged,
            view,
            findings: findings.clone(),
            stop: CancellationToken::new(),
            tasks: JoinSet::new(),
        };
        for writer in 0..WRITERS {
            let writer = Writer {
                counter: format!("counter-{writer}"),
                name: format!("w{writer}"),
                acknowledged: clients.acknowledged.clone(),
                findings: findings.clone(),
            };
            clients.spawn(client, move |client, n| {
                let writer = writer.clone();
                async move { writer.write(client, n).await }
            });
        }
        let watcher = Watcher { view: clients.view.clone(), findings: findings.clone() };
        clients.spawn(client, move |client, _| {
            let watcher = watcher.clone();
            async move { watcher.follow(client).await }
        });
        clients
    }

    fn spawn<F: Future<Output = Result<()>> + Send + 'static>(
        &mut self,
        client: &watch::Receiver<Option<Client>>,
        work: impl Fn(Client, u64) -> F + Send + 'static,
    ) {
        let (mut current, stop) = (client.clone(), self.stop.clone());
        let all = async move {
            for n in 0.. {
                let Ok(client) = current.wait_for(Option::is_some).await.map(|client| client.clone()) else {
                    return;
                };
                if let Some(client) = client {
                    // Errors are ignored: faults make requests fail, and every response that arrives is checked.
                    let _ = work(client, n).await;
                }
                tokio::time::sleep(BETWEEN).await;
            }
        };
        self.tasks.spawn(async move {
            stop.run_until_cancelled(all).await;
        });
    }

    /// Records a write as acknowledged that was never made. This is a deliberate mistake.
    pub(super) fn claim(&self, name: &str) {
        self.acknowledged.lock().created.insert(name.to_owned());
    }

    /// Checks that all acknowledged writes are in the cluster.
    pub(super) async fn check(&self, client: Client) -> Result<()> {
        let promise = self.promise();
        let list = with_timeout(api(client).list(&ListParams::default().labels(LABEL))).await?;
        let at = revision(list.metadata.resource_version.as_deref())?;
        let there = list.items.iter().map(|object| (object.name_any(), number(object))).collect();
        self.compare(&promise, &ReportedState { rule: "SAFE-2", of: "a list", at, objects: there });
        Ok(())
    }

    /// The writes acknowledged so far.
    pub(super) fn promise(&self) -> Promise {
        let acknowledged = self.acknowledged.lock();
        Promise {
            created: acknowledged.created.clone(),
            deleted: acknowledged.deleted.clone(),
            counters: acknowledged.counters.clone(),
            revision: acknowledged.revision,
        }
    }

    /// Checks that a state contains the writes that were acknowledged before the state was requested.
    pub(super) fn compare(&self, promise: &Promise, reported: &ReportedState<'_>) {
        let Promise { created, deleted, counters, revision: before } = promise;
        let ReportedState { rule, of, at, objects: there } = reported;
        let violation = |message: &str| self.findings.violation(rule, &format!("{of}: {message}"));
        if at < before {
            violation(&format!("revision {at} is older than {before}, which was reported before"));
        }
        let leaving = self.acknowledged.lock().leaving.clone();
        for name in created.iter().filter(|name| !there.contains_key(*name) && !leaving.contains(*name)) {
            violation(&format!("ConfigMap {name} was acknowledged and is missing at revision {at}"));
        }
        for name in deleted.iter().filter(|name| there.contains_key(*name)) {
            violation(&format!("ConfigMap {name} exists again at revision {at} after its deletion"));
        }
        for (name, n) in counters {
            let now = there.get(name).copied();
            if now.is_none_or(|now| now < *n) {
                violation(&format!("counter {name} was acknowledged as {n} and is {now:?} at revision {at}"));
            }
        }
        self.findings.checked(created.len() + deleted.len() + counters.len());
    }

    /// Stops all clients and returns a summary. The watcher's view must match the cluster.
    pub(super) async fn end(mut self, client: Client) -> Result<String> {
        let stopping = self.quiet(client.clone()).await;
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        stopping?;
        self.check(client).await?;
        let (acknowledged, view) = (self.acknowledged.lock(), self.view.lock());
        Ok(format!(
            "{} acknowledged, {} watched over {} and {}",
            counted(acknowledged.writes, "write"),
            counted(view.events, "event"),
            counted(view.resumed, "watch"),
            counted(view.listed, "list")
        ))
    }

    /// Makes a last write, waits until the watcher sees it, and compares the watcher's view.
    async fn quiet(&mut self, client: Client) -> Result<()> {
        const LAST: &str = "last";
        let api = api(client);
        with_timeout(api.create(&PostParams::default(), &object(LAST)?)).await?;
        let seen = async {
            while !self.view.lock().objects.contains_key(LAST) {
                tokio::time::sleep(BETWEEN).await;
            }
        };
        if timeout(SILENCE * 3, seen).await.is_err() {
            self.findings.violation("SAFE-11", "the watcher did not receive the last write");
            return Ok(());
        }
        // The writers are still active, so only objects that did not change between the two lists are compared.
        let params = ListParams::default().labels(LABEL);
        let before = with_timeout(api.list(&params)).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let view = self.view.lock().objects.clone();
        let after: BTreeSet<(String, String)> =
            with_timeout(api.list(&params)).await?.items.iter().map(identity).collect();
        for object in before.items.iter().filter(|object| after.contains(&identity(object))) {
            let expect = revision(object.metadata.resource_version.as_deref())?;
            let believed = view.get(&object.name_any()).map(|(revision, _)| *revision);
            if believed != Some(expect) {
                let name = object.name_any();
                let message =
                    format!("ConfigMap {name} is at revision {expect}; the watcher has {believed:?}");
                self.findings.violation("SAFE-11", &message);
            }
        }
        self.findings.checked(before.items.len());
        Ok(())
    }
}

fn identity(object: &ConfigMap) -> (String, String) {
    (object.name_any(), object.resource_version().unwrap_or_default())
}

/// A client that writes objects which no other client writes.
#[derive(Clone)]
struct Writer {
    counter: String,
    name: String,
    acknowledged: Arc<Mutex<AcknowledgedState>>,
    findings: Findings,
}

impl Writer {
    async fn write(&self, client: Client, n: u64) -> Result<()> {
        let api = api(client);
        self.count(&api).await?;
        if !n.is_multiple_of(4) {
            return Ok(());
        }
        let name = format!("{}-{n}", self.name);
        let created = with_timeout(api.create(&PostParams::default(), &object(&name)?)).await?;
        self.record_write(&created)?;
        self.acknowledged.lock().created.insert(name.clone());
        if n.is_multiple_of(8) {
            self.acknowledged.lock().leaving.insert(name.clone());
            with_timeout(api.delete(&name, &DeleteParams::default())).await?;
            let mut acknowledged = self.acknowledged.lock();
            acknowledged.deleted.insert(name);
            acknowledged.writes += 1;
        }
        Ok(())
    }

    /// Reads the counter and writes the next number, unless the counter has changed meanwhile: an earlier request that
    /// timed out may still be executed.
    async fn count(&self, api: &Api<ConfigMap>) -> Result<()> {
        let Some(read) = with_timeout(api.get_opt(&self.counter)).await? else {
            if let Some(n) = self.acknowledged.lock().counters.get(&self.counter) {
                let message = format!("counter {} was acknowledged as {n} and is missing", self.counter);
                self.findings.violation("SAFE-2", &message);
            }
            let created = with_timeout(api.create(&PostParams::default(), &object(&self.counter)?)).await?;
            return self.counted(&created);
        };
        self.counted(&read)?;
        let change = json!({
            "metadata": {"resourceVersion": read.metadata.resource_version},
            "data": {"n": (number(&read) + 1).to_string()},
        });
        let written =
            with_timeout(api.patch(&self.counter, &PatchParams::default(), &Patch::Merge(change))).await?;
        self.counted(&written)
    }

    /// Records a number that was read or acknowledged.
    fn counted(&self, object: &ConfigMap) -> Result<()> {
        self.record_write(object)?;
        let n = number(object);
        let mut acknowledged = self.acknowledged.lock();
        let before = acknowledged.counters.insert(self.counter.clone(), n).unwrap_or(0);
        if n < before {
            let message = format!("counter {} was reported as {before} and then as {n}", self.counter);
            self.findings.violation("SAFE-2", &message);
        }
        Ok(())
    }

    fn record_write(&self, object: &ConfigMap) -> Result<()> {
        let at = revision(object.metadata.resource_version.as_deref())?;
        let mut acknowledged = self.acknowledged.lock();
        acknowledged.revision = acknowledged.revision.max(at);
        acknowledged.writes += 1;
        self.findings.checked(1);
        Ok(())
    }
}

/// A client that watches, resumes at its last revision, and lists again if the server requires it.
#[derive(Clone)]
struct Watcher {
    view: Arc<Mutex<View>>,
    findings: Findings,
}

impl Watcher {
    async fn follow(&self, client: Client) -> Result<()> {
        let api = api(client);
        let at = self.view.lock().revision;
        let at = match at {
            Some(at) => at,
            None => self.list(&api).await?,
        };
        let params = WatchParams::default().labels(LABEL);
        let mut events = Box::pin(with_timeout(api.watch(&params, &at.to_string())).await?);
        self.view.lock().resumed += 1;
        loop {
            let event = timeout(SILENCE, events.try_next()).await.context("silence")??;
            match event.context("the watch ended")? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => self.changed(&object, true)?,
                WatchEvent::Deleted(object) => self.changed(&object, false)?,
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(status) => {
                    self.view.lock().revision = None;
                    return Err(anyhow!(status.message.clone()));
                }
            }
        }
    }

    async fn list(&self, api: &Api<ConfigMap>) -> Result<u64> {
        let list = with_timeout(api.list(&ListParams::default().labels(LABEL))).await?;
        let at = revision(list.metadata.resource_version.as_deref())?;
        let mut view = self.view.lock();
        let latest = view.objects.values().map(|(revision, _)| *revision).max().unwrap_or(0);
        if at < latest {
            let message = format!("a list is at revision {at}, after a watch reported {latest}");
            self.findings.violation("SAFE-11", &message);
        }
        let mut objects = BTreeMap::new();
        for object in &list.items {
            let (name, now) = (object.name_any(), number(object));
            let of = revision(object.metadata.resource_version.as_deref())?;
            if let Some((before, n)) = view.objects.get(&name)
                && (of < *before || now < *n)
            {
                let message = format!("ConfigMap {name} was seen as {n} at {before}, and is {now} at {of}");
                self.findings.violation("SAFE-11", &message);
            }
            objects.insert(name, (of, now));
        }
        self.findings.checked(objects.len());
        *view = View { objects, revision: Some(at), listed: view.listed + 1, ..std::mem::take(&mut *view) };
        Ok(at)
    }

    fn changed(&self, object: &ConfigMap, is_there: bool) -> Result<()> {
        let (name, now) = (object.name_any(), number(object));
        let at = revision(object.metadata.resource_version.as_deref())?;
        let mut view = self.view.lock();
        if let Some(before) = view.revision.filter(|before| at <= *before) {
            let message = format!(
                "the watch reported {name} at revision {at}, although it had already reported revision {before}"
            );
            self.findings.violation("SAFE-11", &message);
        }
        if let Some((_, n)) = view.objects.get(&name).filter(|(_, n)| now < *n) {
            let message = format!("ConfigMap {name} was seen as {n} and then as {now}");
            self.findings.violation("SAFE-11", &message);
        }
        view.revision = Some(at);
        view.events += 1;
        if is_there {
            view.objects.insert(name, (at, now));
        } else {
            view.objects.remove(&name);
        }
        self.findings.checked(1);
        Ok(())
    }
}
