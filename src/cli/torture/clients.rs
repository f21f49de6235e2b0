//! Clients that write down what the cluster has told them: what was acknowledged stays (SAFE-2), what was seen stays true
//! (SAFE-11).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
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

/// Clients that write.
const WRITERS: usize = 2;
/// How long one request may take; a frozen control plane answers none.
const REQUEST: Duration = Duration::from_secs(5);
/// Between two writes of one client.
const BETWEEN: Duration = Duration::from_millis(25);
/// A watch that tells nothing for so long is begun again where it was.
const SILENCE: Duration = Duration::from_secs(10);
/// What all of these objects have.
const LABEL: &str = "torture=written";

/// What was acknowledged.
#[derive(Default)]
struct Acknowledged {
    created: BTreeSet<String>,
    /// Their deletion was asked for: they may be there or not.
    leaving: BTreeSet<String>,
    deleted: BTreeSet<String>,
    /// The highest number of each counter.
    counters: BTreeMap<String, u64>,
    /// The highest revision that anybody was told.
    revision: u64,
    writes: u64,
}

/// What was acknowledged at one moment: whatever is said to be the cluster's state of later has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Promise {
    created: BTreeSet<String>,
    deleted: BTreeSet<String>,
    counters: BTreeMap<String, u64>,
    revision: u64,
}

/// What is said to be the cluster's state.
pub(super) struct Said<'a> {
    /// The rule that is broken when it is not.
    pub(super) rule: &'a str,
    /// Where it is said.
    pub(super) of: &'a str,
    /// Of which revision.
    pub(super) at: u64,
    /// The clients' objects, with their numbers.
    pub(super) there: BTreeMap<String, u64>,
}

impl Said<'_> {
    /// Of an object that may be the clients'.
    pub(super) fn is_of_clients(object: &ConfigMap) -> Option<(String, u64)> {
        let (key, value) = LABEL.split_once('=')?;
        (object.labels().get(key).map(String::as_str) == Some(value))
            .then(|| (object.name_any(), number(object)))
    }
}

/// All clients.
pub(super) struct Clients {
    acknowledged: Arc<Mutex<Acknowledged>>,
    view: Arc<Mutex<View>>,
    findings: Findings,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

/// What the watcher believes.
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

/// An answer within the time of a request.
async fn answer<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T> {
    Ok(timeout(REQUEST, request).await.context("no answer")??)
}

fn revision(text: Option<&str>) -> Result<u64> {
    Ok(text.context("no resourceVersion")?.parse()?)
}

/// A counter's number; 0 of other objects.
fn number(object: &ConfigMap) -> u64 {
    let text = object.data.as_ref().and_then(|data| data.get("n"));
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn object(name: &str) -> Result<ConfigMap> {
    let object = json!({"metadata": {"name": name, "labels": {"torture": "written"}}, "data": {"n": "0"}});
    Ok(serde_json::from_value(object)?)
}

impl Clients {
    /// Starts them; they work while there is a client.
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
                    // Refusals are what faults are for; what was told is checked where it is told.
                    let _ = work(client, n).await;
                }
                tokio::time::sleep(BETWEEN).await;
            }
        };
        self.tasks.spawn(async move {
            stop.run_until_cancelled(all).await;
        });
    }

    /// Says of one write that it was acknowledged, which it was not.
    pub(super) fn claim(&self, name: &str) {
        self.acknowledged.lock().created.insert(name.to_owned());
    }

    /// Whether everything that was acknowledged is there.
    pub(super) async fn check(&self, client: Client) -> Result<()> {
        let promise = self.promise();
        let list = answer(api(client).list(&ListParams::default().labels(LABEL))).await?;
        let at = revision(list.metadata.resource_version.as_deref())?;
        let there = list.items.iter().map(|object| (object.name_any(), number(object))).collect();
        self.compare(&promise, &Said { rule: "SAFE-2", of: "a list", at, there });
        Ok(())
    }

    /// What was acknowledged until now.
    pub(super) fn promise(&self) -> Promise {
        let told = self.acknowledged.lock();
        Promise {
            created: told.created.clone(),
            deleted: told.deleted.clone(),
            counters: told.counters.clone(),
            revision: told.revision,
        }
    }

    /// Whether what was acknowledged before something was asked for is in what was said then.
    pub(super) fn compare(&self, promise: &Promise, said: &Said<'_>) {
        let Promise { created, deleted, counters, revision: before } = promise;
        let Said { rule, of, at, there } = said;
        let violation = |what: &str| self.findings.violation(rule, &format!("{of}: {what}"));
        if at < before {
            violation(&format!("it is of revision {at}, after {before} was told"));
        }
        let leaving = self.acknowledged.lock().leaving.clone();
        for name in created.iter().filter(|name| !there.contains_key(*name) && !leaving.contains(*name)) {
            violation(&format!("ConfigMap {name} was acknowledged and is not there at revision {at}"));
        }
        for name in deleted.iter().filter(|name| there.contains_key(*name)) {
            violation(&format!("ConfigMap {name} is there again at revision {at}, after its deletion"));
        }
        for (name, n) in counters {
            let now = there.get(name).copied();
            if now.is_none_or(|now| now < *n) {
                violation(&format!("counter {name} was acknowledged as {n} and is {now:?} at revision {at}"));
            }
        }
        self.findings.checked(created.len() + deleted.len() + counters.len());
    }

    /// Ends all, and says what they did. What the watcher believes must be what there is.
    pub(super) async fn end(mut self, client: Client) -> Result<String> {
        let stopping = self.quiet(client.clone()).await;
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        stopping?;
        self.check(client).await?;
        let (told, view) = (self.acknowledged.lock(), self.view.lock());
        Ok(format!(
            "{} writes acknowledged, {} events watched over {} watches and {} lists",
            told.writes, view.events, view.resumed, view.listed
        ))
    }

    /// A last write that the watcher must see; then its view is compared.
    async fn quiet(&mut self, client: Client) -> Result<()> {
        const LAST: &str = "last";
        let api = api(client);
        answer(api.create(&PostParams::default(), &object(LAST)?)).await?;
        let seen = async {
            while !self.view.lock().objects.contains_key(LAST) {
                tokio::time::sleep(BETWEEN).await;
            }
        };
        if timeout(SILENCE * 3, seen).await.is_err() {
            self.findings.violation("SAFE-11", "the watcher was not told of the last write");
            return Ok(());
        }
        // The writers go on: an object counts that is the same before and after the watcher is looked at.
        let params = ListParams::default().labels(LABEL);
        let before = answer(api.list(&params)).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let view = self.view.lock().objects.clone();
        let after: BTreeSet<(String, String)> =
            answer(api.list(&params)).await?.items.iter().map(identity).collect();
        for object in before.items.iter().filter(|object| after.contains(&identity(object))) {
            let expect = revision(object.metadata.resource_version.as_deref())?;
            let believed = view.get(&object.name_any()).map(|(revision, _)| *revision);
            if believed != Some(expect) {
                let name = object.name_any();
                let what = format!("ConfigMap {name} is of revision {expect}; the watcher has {believed:?}");
                self.findings.violation("SAFE-11", &what);
            }
        }
        self.findings.checked(before.items.len());
        Ok(())
    }
}

fn identity(object: &ConfigMap) -> (String, String) {
    (object.name_any(), object.resource_version().unwrap_or_default())
}

/// A client that writes: nobody else writes what it does.
#[derive(Clone)]
struct Writer {
    counter: String,
    name: String,
    acknowledged: Arc<Mutex<Acknowledged>>,
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
        let created = answer(api.create(&PostParams::default(), &object(&name)?)).await?;
        self.told(&created)?;
        self.acknowledged.lock().created.insert(name.clone());
        if n.is_multiple_of(8) {
            self.acknowledged.lock().leaving.insert(name.clone());
            answer(api.delete(&name, &DeleteParams::default())).await?;
            let mut told = self.acknowledged.lock();
            told.deleted.insert(name);
            told.writes += 1;
        }
        Ok(())
    }

    /// Reads the counter and writes the next number, if nobody has since: a request that was given up may still arrive.
    async fn count(&self, api: &Api<ConfigMap>) -> Result<()> {
        let Some(read) = answer(api.get_opt(&self.counter)).await? else {
            if let Some(n) = self.acknowledged.lock().counters.get(&self.counter) {
                let what = format!("counter {} was acknowledged as {n} and is gone", self.counter);
                self.findings.violation("SAFE-2", &what);
            }
            let created = answer(api.create(&PostParams::default(), &object(&self.counter)?)).await?;
            return self.counted(&created);
        };
        self.counted(&read)?;
        let change = json!({
            "metadata": {"resourceVersion": read.metadata.resource_version},
            "data": {"n": (number(&read) + 1).to_string()},
        });
        let written =
            answer(api.patch(&self.counter, &PatchParams::default(), &Patch::Merge(change))).await?;
        self.counted(&written)
    }

    /// A number that was read or acknowledged.
    fn counted(&self, object: &ConfigMap) -> Result<()> {
        self.told(object)?;
        let n = number(object);
        let mut told = self.acknowledged.lock();
        let before = told.counters.insert(self.counter.clone(), n).unwrap_or(0);
        if n < before {
            let what = format!("counter {} was told as {before} and then as {n}", self.counter);
            self.findings.violation("SAFE-2", &what);
        }
        Ok(())
    }

    fn told(&self, object: &ConfigMap) -> Result<()> {
        let at = revision(object.metadata.resource_version.as_deref())?;
        let mut told = self.acknowledged.lock();
        told.revision = told.revision.max(at);
        told.writes += 1;
        self.findings.checked(1);
        Ok(())
    }
}

/// A client that watches, goes on where it was, and lists anew when it is told to.
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
        let mut events = Box::pin(answer(api.watch(&params, &at.to_string())).await?);
        self.view.lock().resumed += 1;
        loop {
            let event = timeout(SILENCE, events.try_next()).await.context("silence")??;
            match event.context("the watch has ended")? {
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
        let list = answer(api.list(&ListParams::default().labels(LABEL))).await?;
        let at = revision(list.metadata.resource_version.as_deref())?;
        let mut view = self.view.lock();
        let latest = view.objects.values().map(|(revision, _)| *revision).max().unwrap_or(0);
        if at < latest {
            let what = format!("a list is of revision {at}, after a watch told {latest}");
            self.findings.violation("SAFE-11", &what);
        }
        let mut objects = BTreeMap::new();
        for object in &list.items {
            let (name, now) = (object.name_any(), number(object));
            let of = revision(object.metadata.resource_version.as_deref())?;
            if let Some((before, n)) = view.objects.get(&name)
                && (of < *before || now < *n)
            {
                let what = format!("ConfigMap {name} was seen as {n} at {before}, and is {now} at {of}");
                self.findings.violation("SAFE-11", &what);
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
        if view.revision.is_some_and(|before| at <= before) {
            let what = format!("the change of {name} to revision {at} is told after {:?}", view.revision);
            self.findings.violation("SAFE-11", &what);
        }
        if let Some((_, n)) = view.objects.get(&name).filter(|(_, n)| now < *n) {
            let what = format!("ConfigMap {name} was seen as {n} and then as {now}");
            self.findings.violation("SAFE-11", &what);
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
