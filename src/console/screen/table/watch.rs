//! List and watch of a kind without a store, as the server's Table.

use std::time::Duration;

use futures::TryStreamExt;
use http::Request;
use kube::core::WatchEvent;

use super::Loaded;
use crate::console::action::error_text;
use crate::console::effect::Outbox;
use crate::console::message::Data;
use crate::console::resource::Kind;
use crate::console::rows::server_table::{ACCEPT, ServerTable};

/// The longest wait for another try; who does not want to wait asks anew.
const LONGEST: Duration = Duration::from_secs(8);

/// Lists, then watches, and begins anew when the watch ends; forever.
pub(super) async fn follow(out: Outbox, kind: Kind, namespace: Option<String>) {
    let api = kind.api(out.client(), namespace.as_deref());
    let url = api.resource_url().to_owned();
    let mut wait = Duration::from_secs(1);
    loop {
        match once(&out, &url).await {
            Ok(()) => wait = Duration::from_secs(1),
            Err(error) => {
                out.data(Data::Table(Loaded::Failed(error_text(&error)))).await;
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST);
            }
        }
    }
}

async fn once(out: &Outbox, url: &str) -> Result<(), kube::Error> {
    let list: ServerTable = out.client().request(request(&format!("{url}?includeObject=Metadata"))).await?;
    let list = list.as_table();
    let from = list.metadata.resource_version.clone().unwrap_or_default();
    out.data(Data::Table(Loaded::List(list.column_definitions, list.rows))).await;
    let watch = format!("{url}?watch=true&includeObject=Metadata&resourceVersion={from}&timeoutSeconds=290");
    let events = out.client().request_events::<ServerTable>(request(&watch)).await?;
    futures::pin_mut!(events);
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Added(table) | WatchEvent::Modified(table) => {
                for row in table.as_table().rows {
                    out.data(Data::Table(Loaded::Applied(row))).await;
                }
            }
            WatchEvent::Deleted(table) => {
                for row in table.as_table().rows {
                    out.data(Data::Table(Loaded::Deleted(row))).await;
                }
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(_) => break,
        }
    }
    Ok(())
}

fn request(url: &str) -> Request<Vec<u8>> {
    let request = Request::get(url).header(http::header::ACCEPT, ACCEPT).body(Vec::new());
    request.expect("the path comes from the server's discovery and a namespace's name")
}
