//! Lists and watches a resource as the server's Table, for kinds without a type in the console.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use http::Request;
use kube::Client;
use kube::core::WatchEvent;

use super::{FeedContext, explain_one};
use crate::links::Link;
use crate::message::Message;
use crate::resource::Kind;
use crate::rows::controller;
use crate::server_table::{ACCEPT, Include, ServerTable, TableRow};
use crate::store::{Change, Delta};
use base::clock::saturating_after;

/// The watch timeout; a proxy in between would cut longer watches silently.
const WATCH_SECONDS: u32 = 290;

/// The interval of lists for a resource that cannot be watched (metrics).
const POLL: Duration = Duration::from_secs(10);
/// The interval for controllers, because their state changes constantly.
const POLL_CONTROLLERS: Duration = Duration::from_secs(1);

/// Lists, then watches, and starts again when the watch ends; until the loop ends.
pub(super) async fn follow(context: FeedContext, kind: Kind, namespace: Option<String>, include: Include) {
    let url = kind.api(context.client.clone(), namespace.as_deref()).resource_url().to_owned();
    let mut failures = 0;
    loop {
        let error = match once(&context, &kind, &url, include, &mut failures).await {
            Ok(()) => continue,
            Err(TableFeedEnd::LoopEnded) => return,
            Err(TableFeedEnd::Failed(error)) => error,
        };
        let resource = kind.resource.clone();
        match explain_one(&error) {
            Ok(why) => {
                failures += 1;
                let delay = context.retry_policy.delay(failures);
                let retry_at = saturating_after(context.clock.now(), delay);
                if context.report(Link::Down { resource, reason: why, retry_at }).await.is_err() {
                    return;
                }
                context.wait(delay).await;
            }
            Err(refusal) => {
                let retried = context.retry.notified();
                if context.report(Link::Refused(resource, refusal)).await.is_err() {
                    return;
                }
                retried.await;
            }
        }
    }
}

enum TableFeedEnd {
    LoopEnded,
    Failed(kube::Error),
}

impl From<kube::Error> for TableFeedEnd {
    fn from(error: kube::Error) -> Self {
        Self::Failed(error)
    }
}

async fn once(
    context: &FeedContext,
    kind: &Kind,
    url: &str,
    include: Include,
    failures: &mut u32,
) -> Result<(), TableFeedEnd> {
    let include = include.as_str();
    let client: &Client = &context.client;
    let list: ServerTable = client.request(request(&format!("{url}?includeObject={include}"))).await?;
    let list = list.as_table();
    let from = list.metadata.resource_version.clone().unwrap_or_default();
    let rows = list.rows.into_iter().map(slim).collect();
    send(
        context,
        Delta::of_table(kind.resource.clone(), Some(list.column_definitions), vec![Change::Reset(rows)]),
    )
    .await?;
    let is_of_controllers = kind.resource == controller::resource();
    let pause = if is_of_controllers { POLL_CONTROLLERS } else { POLL };
    if !kind.has_verb("watch") {
        *failures = 0;
        context.wait(pause).await;
        return Ok(());
    }
    let path = format!(
        "{url}?watch=true&includeObject={include}&resourceVersion={from}&timeoutSeconds={WATCH_SECONDS}"
    );
    let opened = context.clock.monotonic();
    let end = watch(context, kind, &path).await;
    if let Err(TableFeedEnd::Failed(kube::Error::Api(status))) = &end
        && is_of_controllers
        && matches!(status.code, 403 | 405)
    {
        // A user who may list controllers but not watch them sees them all the same: they are polled, as on a server
        // that cannot watch them.
        *failures = 0;
        context.wait(pause).await;
        return Ok(());
    }
    // The whole resource is listed before each watch. Only a watch that lasts resets the back-off; the end of a shorter
    // one counts as a failure, and the time that it lasted counts as part of the pause.
    let lasted = context.clock.monotonic().saturating_sub(opened);
    if lasted >= context.retry_policy.max {
        *failures = 0;
    } else if end.is_ok() {
        *failures += 1;
        context.wait(context.retry_policy.delay(*failures).saturating_sub(lasted)).await;
    }
    end
}

/// Sends the changes of a watch until it ends.
async fn watch(context: &FeedContext, kind: &Kind, path: &str) -> Result<(), TableFeedEnd> {
    let events = context.client.request_events::<ServerTable>(request(path)).await?;
    futures::pin_mut!(events);
    while let Some(event) = events.try_next().await? {
        let changes = match event {
            WatchEvent::Added(table) | WatchEvent::Modified(table) => changes(table, Change::Applied),
            WatchEvent::Deleted(table) => changes(table, Change::Deleted),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(_) => break,
        };
        send(context, Delta::of_table(kind.resource.clone(), None, changes)).await?;
    }
    Ok(())
}

async fn send(context: &FeedContext, delta: Delta) -> Result<(), TableFeedEnd> {
    context.messages.send(Message::Feed(delta)).await.map_err(|_| TableFeedEnd::LoopEnded)
}

fn changes(table: ServerTable, change: fn(Arc<TableRow>) -> Change<TableRow>) -> Vec<Change<TableRow>> {
    table.as_table().rows.into_iter().map(slim).map(change).collect()
}

/// Drops managedFields, as the watches of typed resources do.
fn slim(mut row: TableRow) -> Arc<TableRow> {
    row.object.metadata.managed_fields = None;
    Arc::new(row)
}

fn request(url: &str) -> Request<Vec<u8>> {
    let request = Request::get(url).header(http::header::ACCEPT, ACCEPT).body(Vec::new());
    request.expect("the path comes from the server's discovery and a namespace's name")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use base::backoff::BackoffPolicy;
    use base::clock::Clock;
    use base::task::JoinSet;
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::Pod;
    use kube::client::Body;
    use serde_json::json;
    use tokio::sync::{Notify, mpsc};

    use super::*;
    use crate::builtin_kinds;

    /// Returns the seconds of the first lists of pods, if each watch is answered with this code and an empty body after
    /// this time.
    async fn seconds_of_lists(code: u16, watch: Duration) -> Vec<u64> {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let (sender, mut lists) = mpsc::unbounded_channel();
        let server_clock = clock.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (clock, sender) = (server_clock.clone(), sender.clone());
            async move {
                let mut response = http::Response::builder();
                let mut body = Vec::new();
                if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
                    clock.sleep(watch).await;
                    response = response.status(code);
                } else {
                    // The test may have ended.
                    let _ = sender.send(clock.monotonic().as_secs());
                    body = json!({"kind": "Table", "metadata": {"resourceVersion": "7"}})
                        .to_string()
                        .into_bytes();
                }
                Ok::<_, Infallible>(response.body(Body::from(body)).unwrap())
            }
        });
        let (messages, mut inbox) = mpsc::channel(64);
        let context = FeedContext {
            client: Client::new(service, "default"),
            messages,
            clock,
            retry_policy: BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(4) },
            retry: Arc::new(Notify::new()),
        };
        let mut feed = JoinSet::new();
        feed.spawn(follow(context, builtin_kinds::kind::<Pod>(), None, Include::Metadata));
        feed.spawn(async move { while inbox.recv().await.is_some() {} });
        let mut seconds = Vec::new();
        for _ in 0..5 {
            seconds.push(lists.recv().await.unwrap());
        }
        seconds
    }

    #[tokio::test(start_paused = true)]
    async fn a_resource_is_not_listed_again_and_again_while_its_watch_fails_con_18() {
        assert_eq!(seconds_of_lists(500, Duration::ZERO).await, [0, 1, 3, 7, 11]);
        assert_eq!(seconds_of_lists(200, Duration::ZERO).await, [0, 1, 3, 7, 11], "the watch ends at once");
        assert_eq!(
            seconds_of_lists(200, Duration::from_secs(5)).await,
            [0, 5, 10, 15, 20],
            "the watch lasts"
        );
        assert_eq!(
            seconds_of_lists(200, Duration::from_secs(3)).await,
            [0, 3, 6, 10, 14],
            "its time is part of the pause"
        );
        assert_eq!(seconds_of_lists(500, Duration::from_secs(5)).await, [0, 6, 12, 18, 24], "it fails later");
    }
}
