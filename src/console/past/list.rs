//! What was there at a revision: lists of just that state (`resourceVersionMatch=Exact`).

use std::sync::Arc;

use kube::Client;
use serde::Deserialize;
use serde_json::Value;

use super::{MOST, Whose, answered, get};
use crate::builtin;
use crate::resource::ObjectRef;
use crate::server_table::{self, ServerTable};
use crate::store::{Change, Delta, Stores};

/// What stands in the metadata of a list that was cut.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[serde(default)]
    remaining_item_count: Option<i64>,
}

#[derive(Deserialize)]
struct Cut {
    #[serde(default)]
    metadata: ListMeta,
}

#[derive(Deserialize)]
struct Objects {
    #[serde(default)]
    items: Vec<Value>,
}

fn at(path: &str, revision: u64, more: &str) -> String {
    format!("{path}?resourceVersion={revision}&resourceVersionMatch=Exact&limit={MOST}{more}")
}

/// The stores as they were, of so many lists, and how many objects of the first were not told.
pub(crate) async fn stores_at(
    client: &Client,
    lists: &[(Whose, String)],
    revision: u64,
) -> Result<(Stores, usize), String> {
    let mut stores = Stores::default();
    let mut first = None;
    for (whose, selector) in lists {
        let (delta, cut) = list(client, whose, selector, revision).await?;
        first.get_or_insert(cut);
        stores.apply(delta);
    }
    Ok((stores, first.unwrap_or(0)))
}

async fn list(
    client: &Client,
    whose: &Whose,
    selector: &str,
    revision: u64,
) -> Result<(Delta, usize), String> {
    let url = at(&whose.path(client), revision, selector);
    let remaining = |text: &str| {
        let cut = serde_json::from_str::<Cut>(text).ok().and_then(|cut| cut.metadata.remaining_item_count);
        cut.and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
    };
    let strange = |error: serde_json::Error| format!("{}: {error}", whose.kind.heading());
    if let Some(read) = builtin::reader(&whose.kind.resource) {
        let text = answered(client.request_text(get(&url)?)).await?;
        return Ok((read(&text).map_err(strange)?, remaining(&text)));
    }
    let mut request = get(&format!("{url}&includeObject=Metadata"))?;
    let accept = http::HeaderValue::from_static(server_table::ACCEPT);
    request.headers_mut().insert(http::header::ACCEPT, accept);
    let text = answered(client.request_text(request)).await?;
    let table: ServerTable = serde_json::from_str(&text).map_err(strange)?;
    let table = table.as_table();
    let rows = table.rows.into_iter().map(|mut row| {
        row.object.metadata.managed_fields = None;
        Arc::new(row)
    });
    let rows = vec![Change::Reset(rows.collect())];
    let delta = Delta::of_table(whose.kind.resource.clone(), Some(table.column_definitions), rows);
    Ok((delta, remaining(&text)))
}

/// One object as it was; none where it was not there.
pub(crate) async fn object_at(
    client: &Client,
    object: &ObjectRef,
    revision: u64,
) -> Result<Option<Value>, String> {
    let whose = Whose { name: None, ..Whose::from(object) };
    let url = at(&whose.path(client), revision, &format!("&fieldSelector=metadata.name%3D{}", object.name));
    let objects: Objects = answered(client.request(get(&url)?)).await?;
    Ok(objects.items.into_iter().next().map(|mut found| {
        // Items of a list come without what they are.
        if let Some(fields) = found.as_object_mut() {
            fields.insert("apiVersion".to_owned(), Value::String(object.kind.api_version()));
            fields.insert("kind".to_owned(), Value::String(object.kind.kind.clone()));
        }
        found
    }))
}
