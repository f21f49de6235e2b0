//! Watches the cluster: one list+watch a kind, its changes sent on in batches.
//!
//! It keeps no state of its own and drops nothing: while the loop is behind, the channel fills and the
//! watch is read later.

mod opened;
mod usage;

use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use super::action::error_text;
use super::catalogue;
use super::links::{Link, Refusal};
use super::message::Message;
use super::resource::Watched;
use super::store::{Change, Delta};
use crate::base::backoff::BackoffPolicy;
use crate::base::clock::{Clock, saturating_after};

/// Changes taken from a watch in one go; keeps a burst from being one message an object.
const BATCH: usize = 512;

/// Between two tries of what the server on this machine does not answer: a person who has just started it
/// again waits for the screen.
const NEAR: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_millis(500), max: Duration::from_secs(4) };

/// Between two tries elsewhere: a server that comes back is not to be overrun by its clients.
const FAR: BackoffPolicy = BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(30) };

/// How often what does not answer is tried, by where it is: `in process`, `127.0.0.1:6443`, a host.
pub fn pace(origin: &str) -> BackoffPolicy {
    let host = origin.rsplit_once(':').map_or(origin, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let loopback = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if loopback || matches!(host, "localhost" | "in process" | "") { NEAR } else { FAR }
}

/// The running watches. They end when it is dropped.
pub struct Feed {
    line: Line,
    _watches: JoinSet<()>,
    discovery: JoinSet<()>,
}

/// What every watch needs: the way to the server and to the loop, and when to try again.
#[derive(Clone)]
struct Line {
    client: Client,
    messages: mpsc::Sender<Message>,
    clock: Clock,
    pace: BackoffPolicy,
    /// Told when the user does not want to wait for the next try.
    retry: Arc<Notify>,
}

impl Feed {
    /// Starts all watches and discovery. `fallback` is the namespace watched when the server lets us see one
    /// namespace only; `pace` says how long to wait when the server does not answer.
    pub fn start(
        client: &Client,
        fallback: &str,
        messages: &mpsc::Sender<Message>,
        clock: &Clock,
        pace: BackoffPolicy,
    ) -> Self {
        let line = Line {
            client: client.clone(),
            messages: messages.clone(),
            clock: clock.clone(),
            pace,
            retry: Arc::new(Notify::new()),
        };
        let mut watches = JoinSet::new();
        macro_rules! follow {
            ($kind:ident, namespaced) => {{
                let fallback = fallback.to_owned();
                let one: Reach<_> = Box::new(move |client| Api::namespaced(client, &fallback));
                watches.spawn(follow(
                    line.clone(),
                    Watched::$kind,
                    vec![Box::new(Api::all), one],
                    Delta::$kind,
                ));
            }};
            ($kind:ident) => {
                watches.spawn(follow(line.clone(), Watched::$kind, vec![Box::new(Api::all)], Delta::$kind));
            };
        }
        follow!(Namespaces);
        follow!(Nodes);
        follow!(Pods, namespaced);
        follow!(Deployments, namespaced);
        follow!(ReplicaSets, namespaced);
        follow!(Events, namespaced);
        follow!(Services, namespaced);
        follow!(Budgets, namespaced);
        watches.spawn(usage::follow(line.clone()));
        let mut feed = Self { line, _watches: watches, discovery: JoinSet::new() };
        feed.discover();
        feed
    }

    /// Asks for the server's kinds again, and for all that waits for its next try at once.
    pub fn retry(&mut self) {
        self.line.retry.notify_waiters();
        self.discover();
    }

    fn discover(&mut self) {
        self.discovery.abort_all();
        while self.discovery.try_join_next().is_some() {}
        self.discovery.spawn(discover(self.line.clone()));
    }
}

/// Asks for the kinds of the server until it answers.
async fn discover(line: Line) {
    for failures in 1.. {
        match catalogue::discover(&line.client).await {
            Ok(found) => {
                // The loop's end is also ours.
                let _ = line.messages.send(Message::Catalogue(found)).await;
                return;
            }
            Err(error) => tracing::debug!(%error, "discovery failed"),
        }
        line.wait(line.pace.delay(failures)).await;
    }
}

impl Line {
    /// Waits for the next try; no longer than the user wants to.
    async fn wait(&self, delay: Duration) {
        tokio::select! {
            () = self.clock.sleep(delay) => {}
            () = self.retry.notified() => {}
        }
    }

    async fn tell(&self, link: Link) -> Result<(), End> {
        self.messages.send(Message::Link(link)).await.map_err(|_| End::LoopGone)
    }
}

/// A way to the objects of a kind: all of them, or those of one namespace.
type Reach<K> = Box<dyn Fn(Client) -> Api<K> + Send + Sync>;

/// Watches a kind by the first way the server allows. What it refuses is asked for again only when the user
/// wants that.
async fn follow<K>(line: Line, kind: Watched, ways: Vec<Reach<K>>, wrap: fn(Vec<Change<K>>) -> Delta)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    loop {
        let mut refusal = None;
        for way in &ways {
            match watch(&line, kind, way, wrap).await {
                End::Refused(why) => refusal = Some(why),
                End::LoopGone => return,
            }
        }
        let Some(refusal) = refusal else { return };
        let asked_again = line.retry.notified();
        if line.tell(Link::Refused(kind, refusal)).await.is_err() {
            return;
        }
        asked_again.await;
    }
}

enum End {
    Refused(Refusal),
    LoopGone,
}

async fn watch<K>(line: &Line, kind: Watched, way: &Reach<K>, wrap: fn(Vec<Change<K>>) -> Delta) -> End
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let opened = Arc::new(Notify::new());
    let api = way(opened::client(line.client.clone(), opened.clone()));
    let mut stream = std::pin::pin!(watcher(api, watcher::Config::default()));
    let mut listing: Option<Vec<Arc<K>>> = None;
    let mut failures = 0;
    loop {
        let first = tokio::select! {
            () = opened.notified() => {
                if std::mem::take(&mut failures) > 0 && let Err(end) = line.tell(Link::Up(kind)).await {
                    return end;
                }
                continue;
            }
            event = stream.next() => event,
        };
        let Some(first) = first else { return End::LoopGone };
        let mut batch = Vec::new();
        let mut next = Some(first);
        let mut failed = None;
        // What is there already goes in one message; an error ends it, for what follows it has to wait.
        while let Some(event) = next.take() {
            match event {
                Ok(Event::Init) => listing = Some(Vec::new()),
                Ok(Event::InitApply(object)) => listing.get_or_insert_default().push(slim(object)),
                Ok(Event::InitDone) => batch.push(Change::Reset(listing.take().unwrap_or_default())),
                Ok(Event::Apply(object)) => batch.push(Change::Applied(slim(object))),
                Ok(Event::Delete(object)) => batch.push(Change::Deleted(slim(object))),
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
            // Whatever came, the server has spoken.
            if std::mem::take(&mut failures) > 0
                && let Err(end) = line.tell(Link::Up(kind)).await
            {
                return end;
            }
            if line.messages.send(Message::Feed(wrap(batch))).await.is_err() {
                return End::LoopGone;
            }
        }
        let Some(error) = failed else { continue };
        let why = match explain(&error) {
            Ok(why) => why,
            Err(refusal) => return End::Refused(refusal),
        };
        failures += 1;
        let delay = line.pace.delay(failures);
        let retry_at = saturating_after(line.clock.now(), delay);
        if let Err(end) = line.tell(Link::Down { kind, why, retry_at }).await {
            return end;
        }
        line.wait(delay).await;
    }
}

/// Without managedFields, which are half of an object and which no list shows; the clone is smaller
/// than what was parsed.
fn slim<K: Resource + Clone>(mut object: K) -> Arc<K> {
    object.meta_mut().managed_fields = None;
    Arc::new(object.clone())
}

/// What went wrong; or that it is of no use to try again.
fn explain(error: &watcher::Error) -> Result<String, Refusal> {
    let inner = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => error,
        other => return Ok(other.to_string()),
    };
    match inner {
        kube::Error::Api(status) if status.code == 403 => Err(Refusal::NotAllowed(error_text(inner))),
        kube::Error::Api(status) if status.code == 404 => Err(Refusal::Absent),
        _ => Ok(error_text(inner)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONSOLE-FOUND 4: nobody waits half a minute for a server on the same machine.
    #[test]
    fn what_is_near_is_tried_again_within_seconds_con_18() {
        for (origin, near) in [
            ("in process", true),
            ("127.0.0.1:6443", true),
            ("[::1]:6443", true),
            ("localhost:6443", true),
            ("10.0.0.1:6443", false),
            ("api.example.com", false),
            ("api.example.com:6443", false),
        ] {
            assert_eq!(pace(origin).max <= Duration::from_secs(4), near, "{origin}");
        }
    }
}
