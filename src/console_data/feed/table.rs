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
    *failures = 0;
    let is_of_controllers = kind.resource == controller::resource();
    let pause = if is_of_controllers { POLL_CONTROLLERS } else { POLL };
    if !kind.has_verb("watch") {
        context.wait(pause).await;
        return Ok(());
    }
    let watch = format!(
        "{url}?watch=true&includeObject={include}&resourceVersion={from}&timeoutSeconds={WATCH_SECONDS}"
    );
    let events = match client.request_events::<ServerTable>(request(&watch)).await {
        // A user who may list controllers but not watch them sees them all the same: they are polled, as on a server
        // that cannot watch them.
        Err(kube::Error::Api(status)) if is_of_controllers && matches!(status.code, 403 | 405) => {
            context.wait(pause).await;
            return Ok(());
        }
        events => events?,
    };
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
