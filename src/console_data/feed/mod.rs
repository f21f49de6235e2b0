//! Watches the cluster: one list and watch per kind, with changes sent on in batches.
//!
//! The feed has no state of its own and drops nothing: while the loop is behind, the channel fills up and the watches
//! are read later.

mod observed_client;
mod table;
mod usage;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use base::task::JoinSet;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use tokio::sync::{Notify, mpsc};

use super::action::{error_text, request_error};
use super::builtin_kinds::{self, Builtin};
use super::catalogue;
use super::decoded::{JsonObject, WatchBackoff};
use super::links::{Link, UnavailableReason};
use super::message::Message;
use super::resource::{Kind, ResourceKey};
use super::server_table::Include;
use super::store::{Change, Delta, Object, ObjectPacker};
use base::backoff::BackoffPolicy;
use base::clock::{Clock, saturating_after};

/// The maximum number of changes taken from a watch at a time; prevents one message per object in a burst.
const BATCH: usize = 512;

/// The page size of lists; each page is shown before the next arrives. A page has more objects than fit on a screen;
/// much larger pages would only use memory while they are parsed.
const PAGE: u16 = 200;

/// The back-off for a server on this machine; short, because a user who has just restarted it waits for the screen.
const LOCAL_BACKOFF: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_millis(500), max: Duration::from_secs(4) };

/// The back-off for other servers: a server that recovers must not be overrun by its clients.
const REMOTE_BACKOFF: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(30) };

/// Returns the back-off for a server by its address: `in process`, `127.0.0.1:6443`, a host.
pub fn retry_policy(origin: &str) -> BackoffPolicy {
    let host = origin.rsplit_once(':').map_or(origin, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let loopback = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if loopback || matches!(host, "localhost" | "in process" | "") { LOCAL_BACKOFF } else { REMOTE_BACKOFF }
}

/// The running watches. Dropping the feed ends them.
pub struct Feed {
    context: FeedContext,
    /// The namespace to watch if the server forbids cluster-wide watches.
    fallback: String,
    /// The typed resources that are watched.
    needed: HashSet<ResourceKey>,
    watches: JoinSet<()>,
    /// The watches for open tables.
    tables: HashMap<ResourceKey, JoinSet<()>>,
    discovery: JoinSet<()>,
    /// The task that polls pod metrics, while they are needed.
    pod_usage: JoinSet<()>,
}

/// The context of every watch: client, channel to the loop, and retry policy.
#[derive(Clone)]
struct FeedContext {
    client: Client,
    messages: mpsc::Sender<Message>,
    clock: Clock,
    retry_policy: BackoffPolicy,
    /// Notified when the user requests an immediate retry.
    retry: Arc<Notify>,
}

impl Feed {
    /// Starts all watches and discovery. `fallback` is the namespace to watch if the server forbids cluster-wide
    /// watches; `retry_policy` is the back-off for a server that does not answer.
    pub fn start(
        client: &Client,
        fallback: &str,
        messages: &mpsc::Sender<Message>,
        clock: &Clock,
        retry_policy: BackoffPolicy,
    ) -> Self {
        let mut feed = Self::start_lean(client, fallback, messages, clock, retry_policy);
        for resource in builtin_kinds::all_resources() {
            feed.watch_typed(&resource);
        }
        feed
    }

    /// As [`Self::start`], but starts no watch: [`Self::watch_typed`] starts each when it is needed.
    pub fn start_lean(
        client: &Client,
        fallback: &str,
        messages: &mpsc::Sender<Message>,
        clock: &Clock,
        retry_policy: BackoffPolicy,
    ) -> Self {
        let context = FeedContext {
            client: client.clone(),
            messages: messages.clone(),
            clock: clock.clone(),
            retry_policy,
            retry: Arc::new(Notify::new()),
        };
        let mut feed = Self {
            context,
            fallback: fallback.to_owned(),
            needed: HashSet::new(),
            watches: JoinSet::new(),
            tables: HashMap::new(),
            discovery: JoinSet::new(),
            pod_usage: JoinSet::new(),
        };
        feed.discover();
        feed
    }

    /// Watches a resource that has a type in the console.
    pub fn watch_typed(&mut self, resource: &ResourceKey) {
        if !self.needed.insert(resource.clone()) {
            return;
        }
        if let Some(known) = builtin_kinds::find(resource) {
            let fallback = (known.kind)().namespaced.then(|| self.fallback.clone());
            self.watches.spawn(follow(self.context.clone(), known, fallback));
        }
        // The rows of pods also depend on whether metrics are available.
        let measured = [ResourceKey::of::<Node>(), ResourceKey::of::<Pod>()];
        if measured.contains(resource) && measured.iter().filter(|of| self.needed.contains(of)).count() == 1 {
            self.watches.spawn(usage::follow(self.context.clone()));
        }
    }

    /// Watches a resource as the server's Table, in one namespace or in all, until `unwatch`.
    pub fn watch(&mut self, kind: Kind, namespace: Option<String>, include: Include) {
        let mut watch = JoinSet::new();
        let resource = kind.resource.clone();
        watch.spawn(table::follow(self.context.clone(), kind, namespace, include));
        // The old watch ends when its set is dropped.
        self.tables.insert(resource, watch);
    }

    /// Starts or stops polling pod metrics.
    pub fn measure_pods(&mut self, is_enabled: bool) {
        self.pod_usage = JoinSet::new();
        if is_enabled {
            self.pod_usage.spawn(usage::follow_pods(self.context.clone()));
        }
    }

    /// Ends the watch of a resource.
    pub fn unwatch(&mut self, resource: &ResourceKey) {
        self.tables.remove(resource);
    }

    /// Repeats discovery, and retries everything in back-off at once.
    pub fn retry(&mut self) {
        self.context.retry.notify_waiters();
        self.discover();
    }

    fn discover(&mut self) {
        self.discovery.abort_all();
        while self.discovery.try_join_next().is_some() {}
        self.discovery.spawn(discover(self.context.clone()));
    }
}

/// Changes of definitions within this time lead to one discovery.
const DISCOVERY_DEBOUNCE: Duration = Duration::from_millis(50);

/// Runs discovery until the server answers, and again whenever a CustomResourceDefinition changes.
async fn discover(context: FeedContext) {
    let definitions: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(context.client.clone());
    let mut changes = pin!(watcher(definitions, watcher::Config::default()).backoff(WatchBackoff::default()));
    let mut known = None;
    let mut failures = 0;
    loop {
        match catalogue::discover(&context.client).await {
            Ok(found) => {
                failures = 0;
                if known.as_ref() != Some(&found) {
                    known = Some(found.clone());
                    // This task ends with the loop.
                    let _ = context.messages.send(Message::Catalogue(found)).await;
                }
            }
            Err(error) => {
                tracing::debug!(%error, "discovery failed");
                failures += 1;
                context.wait(context.retry_policy.delay(failures)).await;
                continue;
            }
        }
        // A server without definitions, or one that forbids watching them, is not queried again.
        if !changed(&mut changes).await {
            return;
        }
        context.clock.sleep(DISCOVERY_DEBOUNCE).await;
        while changes.next().now_or_never().flatten().is_some() {}
    }
}

/// Waits until a definition is created, changed or deleted; returns false if that cannot be detected.
async fn changed<T>(
    changes: &mut (impl futures::Stream<Item = watcher::Result<watcher::Event<T>>> + Unpin),
) -> bool {
    loop {
        match changes.next().await {
            Some(Ok(watcher::Event::Init | watcher::Event::InitApply(_))) => {}
            Some(Ok(_)) => return true,
            Some(Err(watcher::Error::InitialListFailed(kube::Error::Api(status))))
                if matches!(status.code, 403 | 404) =>
            {
                return false;
            }
            Some(Err(error)) => tracing::debug!(%error, "cannot watch CustomResourceDefinitions"),
            None => return false,
        }
    }
}

impl FeedContext {
    /// Waits for the next attempt, or until the user requests a retry.
    async fn wait(&self, delay: Duration) {
        tokio::select! {
            () = self.clock.sleep(delay) => {}
            () = self.retry.notified() => {}
        }
    }

    async fn report(&self, link: Link) -> Result<(), FeedEnd> {
        self.messages.send(Message::Link(link)).await.map_err(|_| FeedEnd::LoopEnded)
    }
}

/// Watches a kind in all namespaces, or in `fallback` if the server forbids that. After a refusal it retries only at the
/// user's request.
async fn follow(context: FeedContext, kind: &'static Builtin, fallback: Option<String>) {
    loop {
        let mut refusal = None;
        for namespace in std::iter::once(None).chain(fallback.as_deref().map(Some)) {
            match watch(&context, kind, namespace).await {
                FeedEnd::Refused(why) => refusal = Some(why),
                FeedEnd::LoopEnded => return,
            }
        }
        let Some(refusal) = refusal else { return };
        let retried = context.retry.notified();
        if context.report(Link::Refused((kind.resource)(), refusal)).await.is_err() {
            return;
        }
        retried.await;
    }
}

enum FeedEnd {
    Refused(UnavailableReason),
    LoopEnded,
}

async fn watch(context: &FeedContext, kind: &Builtin, namespace: Option<&str>) -> FeedEnd {
    let resource = (kind.resource)();
    let opened = Arc::new(Notify::new());
    let api = (kind.api)(observed_client::client(context.client.clone(), opened.clone()), namespace);
    let mut stream = std::pin::pin!(watcher(api, watcher::Config::default().page_size(PAGE.into())));
    let page = usize::from(PAGE);
    let mut keeper = ObjectPacker::default();
    let mut listing: Option<Vec<Arc<dyn Object>>> = None;
    let mut failures = 0;
    loop {
        let first = tokio::select! {
            () = opened.notified() => {
                if std::mem::take(&mut failures) > 0 && let Err(end) = context.report(Link::Up(resource.clone())).await {
                    return end;
                }
                continue;
            }
            event = stream.next() => event,
        };
        let Some(first) = first else { return FeedEnd::LoopEnded };
        let mut batch = Vec::new();
        let mut next = Some(first);
        let mut failed = None;
        // Changes that are available already go in one message; an error ends the batch, because its back-off delays
        // the rest.
        while let Some(event) = next.take() {
            let decoded = event.and_then(|event| decode(kind, &mut keeper, event));
            match decoded {
                Ok(watcher::Event::Init) => listing = Some(Vec::new()),
                Ok(watcher::Event::InitApply(object)) => {
                    let listed = listing.get_or_insert_default();
                    listed.push(object);
                    // The first page is shown before the last page of a long list arrives.
                    if listed.len().is_multiple_of(page) {
                        batch.push(Change::Listed(listed[listed.len() - page..].to_vec()));
                        break;
                    }
                }
                Ok(watcher::Event::InitDone) => batch.push(Change::Reset(listing.take().unwrap_or_default())),
                Ok(watcher::Event::Apply(object)) => {
                    batch.push(Change::Applied(object));
                }
                Ok(watcher::Event::Delete(object)) => {
                    batch.push(Change::Deleted(object));
                }
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
            if batch.len() < BATCH {
                next = stream.next().now_or_never().flatten();
            }
        }
        if !batch.is_empty() {
            // Any event proves that the server answers.
            if std::mem::take(&mut failures) > 0
                && let Err(end) = context.report(Link::Up(resource.clone())).await
            {
                return end;
            }
            if context
                .messages
                .send(Message::Feed(Delta::from_packed(resource.clone(), batch)))
                .await
                .is_err()
            {
                return FeedEnd::LoopEnded;
            }
        }
        let Some(error) = failed else { continue };
        let reason = match explain(&error) {
            Ok(why) => why,
            Err(refusal) => return FeedEnd::Refused(refusal),
        };
        failures += 1;
        let delay = context.retry_policy.delay(failures);
        let retry_at = saturating_after(context.clock.now(), delay);
        if let Err(end) = context.report(Link::Down { resource: resource.clone(), reason, retry_at }).await {
            return end;
        }
        context.wait(delay).await;
    }
}

/// Turns the object of an event into the store's form. An object that cannot be read is an error of the watch.
fn decode(
    kind: &Builtin,
    packer: &mut ObjectPacker,
    event: watcher::Event<JsonObject>,
) -> watcher::Result<watcher::Event<Arc<dyn Object>>> {
    let mut decoded = |object: JsonObject| {
        let object = (kind.decode)(packer, object.json);
        object.map_err(|error| watcher::Error::WatchFailed(kube::Error::SerdeError(error)))
    };
    Ok(match event {
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitDone => watcher::Event::InitDone,
        watcher::Event::InitApply(object) => watcher::Event::InitApply(decoded(object)?),
        watcher::Event::Apply(object) => watcher::Event::Apply(decoded(object)?),
        watcher::Event::Delete(object) => watcher::Event::Delete(decoded(object)?),
    })
}

/// Describes an error after which a retry may help. Returns the reason as the error if the server refuses the kind,
/// because a retry is then useless.
fn explain(error: &watcher::Error) -> Result<String, UnavailableReason> {
    request_error(error).map_or_else(|| Ok(error.to_string()), explain_one)
}

fn explain_one(error: &kube::Error) -> Result<String, UnavailableReason> {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            Err(UnavailableReason::NotAllowed(error_text(error)))
        }
        kube::Error::Api(status) if status.code == 404 => Err(UnavailableReason::Absent),
        _ => Ok(error_text(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    fn pods(from: usize, to: usize, next: Option<&str>) -> Value {
        let pod = |n: usize| json!({"metadata": {"name": format!("pod-{n:05}"), "namespace": "default", "uid": n.to_string()}});
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7", "continue": next},
            "items": (from..to).map(pod).collect::<Vec<_>>()})
    }

    /// Follows the pods of a server that answers list requests, counted from 0, with the results of this function, and
    /// keeps its watches silent.
    fn follow_pods<F: Future<Output = (u16, Value)> + Send + 'static>(
        respond: impl Fn(usize, String) -> F + Send + Sync + 'static,
    ) -> (JoinSet<()>, mpsc::Receiver<Message>) {
        let (answer, lists) = (Arc::new(respond), Arc::new(AtomicUsize::new(0)));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (answer, lists) = (answer.clone(), lists.clone());
            async move {
                let query = request.uri().query().unwrap_or_default().to_owned();
                if query.contains("watch=true") {
                    std::future::pending::<()>().await;
                }
                let (code, body) = answer(lists.fetch_add(1, Ordering::Relaxed), query).await;
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, Infallible>(http::Response::builder().status(code).body(body).unwrap())
            }
        });
        let (messages, inbox) = mpsc::channel(64);
        let context = FeedContext {
            client: Client::new(service, "default"),
            messages,
            clock: Clock::machine(),
            retry_policy: BackoffPolicy { initial: Duration::from_millis(1), max: Duration::from_millis(1) },
            retry: Arc::new(Notify::new()),
        };
        let mut watches = JoinSet::new();
        let pods = builtin_kinds::find(&ResourceKey::of::<Pod>()).unwrap();
        watches.spawn(follow(context, pods, Some("default".into())));
        (watches, inbox)
    }

    /// Returns the sizes of partial and complete lists in order, up to the first complete one.
    async fn sizes(inbox: &mut mpsc::Receiver<Message>) -> Vec<(&'static str, usize)> {
        let mut sizes = Vec::new();
        while let Some(message) = inbox.recv().await {
            let Message::Feed(delta) = message else { continue };
            for change in &delta.changes {
                match change {
                    Change::Listed(objects) => sizes.push(("listed", objects.len())),
                    Change::Reset(objects) => {
                        sizes.push(("all", objects.len()));
                        return sizes;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        sizes
    }

    #[tokio::test]
    async fn the_first_page_of_a_long_list_comes_before_the_second_is_there_con_1() {
        let second = Arc::new(Notify::new());
        let held = second.clone();
        let (_watches, mut inbox) = follow_pods(move |n, query| {
            let held = held.clone();
            async move {
                if n == 0 {
                    assert!(query.contains("limit=200"), "{query}");
                    return (200, pods(0, 200, Some("more")));
                }
                held.notified().await;
                (200, pods(200, 301, None))
            }
        });
        let Some(Message::Feed(delta)) = inbox.recv().await else { panic!("no page") };
        assert!(matches!(delta.changes.as_slice(), [Change::Listed(page)] if page.len() == 200), "{delta:?}");
        second.notify_one();
        assert_eq!(sizes(&mut inbox).await, [("all", 301)]);
    }

    #[tokio::test]
    async fn a_server_that_knows_no_pages_is_understood_con_1() {
        let (_watches, mut inbox) = follow_pods(|_, _| async { (200, pods(0, 401, None)) });
        assert_eq!(sizes(&mut inbox).await, [("listed", 200), ("listed", 200), ("all", 401)]);
    }

    #[tokio::test]
    async fn a_list_with_expired_pages_starts_over_con_1() {
        let (_watches, mut inbox) = follow_pods(|n, _| async move {
            match n {
                0 => (200, pods(0, 200, Some("old"))),
                1 => {
                    let expired = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                        "message": "too old", "reason": "Expired", "code": 410});
                    (410, expired)
                }
                _ => (200, pods(100, 290, None)),
            }
        });
        assert_eq!(sizes(&mut inbox).await, [("listed", 200), ("all", 190)]);
    }

    /// Half a minute of back-off is too long for a server on the same machine.
    #[test]
    fn a_local_server_is_retried_within_seconds_con_18() {
        for (origin, near) in [
            ("in process", true),
            ("127.0.0.1:6443", true),
            ("[::1]:6443", true),
            ("localhost:6443", true),
            ("10.0.0.1:6443", false),
            ("api.example.com", false),
            ("api.example.com:6443", false),
        ] {
            assert_eq!(retry_policy(origin).max <= Duration::from_secs(4), near, "{origin}");
        }
    }
}
