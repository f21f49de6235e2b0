//! Watches the cluster: one list+watch a kind, its changes sent on in batches.
//!
//! It keeps no state of its own and drops nothing: while the loop is behind, the channel fills and the
//! watch is read later.

use std::fmt::Debug;
use std::sync::Arc;

use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::action::error_text;
use super::catalogue;
use super::message::{Link, Message};
use super::resource::Watched;
use super::store::{Change, Delta};
use super::toast::Toast;

/// Changes taken from a watch in one go; keeps a burst from being one message an object.
const BATCH: usize = 512;

/// Starts all watches and discovery. They end when the set is dropped. `fallback` is the namespace
/// watched when the server lets us see one namespace only.
pub fn start(client: &Client, fallback: &str, messages: &mpsc::Sender<Message>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    macro_rules! follow {
        ($kind:ident, namespaced) => {{
            let one = Api::namespaced(client.clone(), fallback);
            tasks.spawn(follow(
                Watched::$kind,
                Api::all(client.clone()),
                Some(one),
                Delta::$kind,
                messages.clone(),
            ));
        }};
        ($kind:ident) => {
            tasks.spawn(follow(
                Watched::$kind,
                Api::all(client.clone()),
                None,
                Delta::$kind,
                messages.clone(),
            ));
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
    tasks.spawn(discover(client.clone(), messages.clone()));
    tasks
}

/// Asks for the kinds of the server until it answers.
pub async fn discover(client: Client, messages: mpsc::Sender<Message>) {
    let mut wait = std::time::Duration::from_millis(500);
    loop {
        match catalogue::discover(&client).await {
            Ok(found) => {
                // The loop's end is also ours.
                let _ = messages.send(Message::Catalogue(found)).await;
                return;
            }
            Err(error) => tracing::debug!(%error, "discovery failed"),
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(std::time::Duration::from_secs(30));
    }
}

async fn follow<K>(
    kind: Watched,
    everywhere: Api<K>,
    fallback: Option<Api<K>>,
    wrap: fn(Vec<Change<K>>) -> Delta,
    messages: mpsc::Sender<Message>,
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    match watch(kind, everywhere, wrap, &messages).await {
        End::Refused(_) if fallback.is_some() => {
            let Some(one) = fallback else { return };
            if let End::Refused(why) = watch(kind, one, wrap, &messages).await {
                let _ = messages.send(Message::Link(Link::Refused(kind, why))).await;
            }
        }
        End::Refused(why) => {
            let _ = messages.send(Message::Link(Link::Refused(kind, why))).await;
        }
        End::LoopGone => {}
    }
}

enum End {
    Refused(String),
    LoopGone,
}

async fn watch<K>(
    kind: Watched,
    api: Api<K>,
    wrap: fn(Vec<Change<K>>) -> Delta,
    messages: &mpsc::Sender<Message>,
) -> End
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let stream = watcher(api, watcher::Config::default()).default_backoff().ready_chunks(BATCH);
    futures::pin_mut!(stream);
    let mut listing: Option<Vec<Arc<K>>> = None;
    let mut down = false;
    while let Some(chunk) = stream.next().await {
        let mut batch = Vec::new();
        for event in chunk {
            match event {
                Ok(Event::Init) => listing = Some(Vec::new()),
                Ok(Event::InitApply(object)) => listing.get_or_insert_default().push(slim(object)),
                Ok(Event::InitDone) => batch.push(Change::Reset(listing.take().unwrap_or_default())),
                Ok(Event::Apply(object)) => batch.push(Change::Applied(slim(object))),
                Ok(Event::Delete(object)) => batch.push(Change::Deleted(slim(object))),
                Err(error) => {
                    let (refused, why) = explain(&error);
                    if refused {
                        return End::Refused(why);
                    }
                    down = true;
                    if messages.send(Message::Link(Link::Down(kind, why))).await.is_err() {
                        return End::LoopGone;
                    }
                }
            }
        }
        if batch.is_empty() {
            continue;
        }
        if std::mem::take(&mut down) {
            let _ = messages.send(Message::Link(Link::Up(kind))).await;
        }
        if messages.send(Message::Feed(wrap(batch))).await.is_err() {
            return End::LoopGone;
        }
    }
    End::LoopGone
}

/// Without managedFields, which are half of an object and which no list shows; the clone is smaller
/// than what was parsed.
fn slim<K: Resource + Clone>(mut object: K) -> Arc<K> {
    object.meta_mut().managed_fields = None;
    Arc::new(object.clone())
}

fn explain(error: &watcher::Error) -> (bool, String) {
    let inner = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => error,
        other => return (false, other.to_string()),
    };
    let refused = matches!(inner, kube::Error::Api(status) if status.code == 403 || status.code == 404);
    (refused, error_text(inner))
}

/// Tells that a kind cannot be seen.
pub fn refusal(kind: Watched, why: &str) -> Toast {
    Toast::failed(format!("{}: {why}", kind.kind().plural))
}
