//! Lists of the state at exactly one revision (`resourceVersionMatch=Exact`).

use std::sync::Arc;

use kube::Client;
use kube::api::{ListParams, Request};
use serde::Deserialize;
use serde_json::Value;

use super::error::{HistoryError, answered, get};
use super::{HistoryScope, MAX_COUNTED, MAX_OBJECTS};
use crate::builtin_kinds;
use crate::resource::ObjectRef;
use crate::server_table::{self, Include, ServerTable};
use crate::store::{Change, Delta, Stores};

/// The metadata of a truncated list.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[serde(default)]
    remaining_item_count: Option<i64>,
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct TruncatedList {
    #[serde(default)]
    metadata: ListMeta,
}

#[derive(Deserialize)]
struct Objects {
    #[serde(default)]
    items: Vec<Value>,
}

fn at(path: &str, revision: u64, more: &str) -> String {
    format!("{path}?resourceVersion={revision}&resourceVersionMatch=Exact&limit={MAX_OBJECTS}{more}")
}

/// The rest of a list: the number of further objects, and the token of the next page.
#[derive(Default)]
struct ListRemainder {
    count: usize,
    next: Option<String>,
}

impl ListRemainder {
    fn of(text: &str) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the reader of the items reports text that is no list")]
        let metadata =
            serde_json::from_str::<TruncatedList>(text).map(|cut| cut.metadata).unwrap_or_default();
        let next = metadata.next.filter(|next| !next.is_empty());
        let remaining = metadata.remaining_item_count.and_then(|count| usize::try_from(count).ok());
        // A server need not send the number of remaining items; a continue token implies at least one.
        Self { count: remaining.unwrap_or_else(|| usize::from(next.is_some())), next }
    }
}

/// Requests the past state of several lists; also returns how many objects of the first list were cut off.
pub async fn stores_at(
    client: &Client,
    lists: &[(HistoryScope, String)],
    revision: u64,
) -> Result<(Stores, usize), String> {
    let mut stores = Stores::default();
    let mut first = None;
    for (scope, selector) in lists {
        let url = at(&scope.path(client), revision, selector);
        let (delta, rest) = list(client, scope, &url, Include::Metadata).await?;
        first.get_or_insert(rest.count);
        stores.apply(delta);
    }
    Ok((stores, first.unwrap_or(0)))
}

/// As [`stores_at`], for counting: requests every list to its end, or up to [`MAX_COUNTED`] objects. Also returns for
/// each how many objects were cut off.
pub async fn whole_stores_at(
    client: &Client,
    lists: &[HistoryScope],
    revision: u64,
) -> Result<(Stores, Vec<usize>), String> {
    let mut stores = Stores::default();
    let mut cuts = Vec::with_capacity(lists.len());
    for scope in lists {
        let (pages, cut) = whole_list(client, scope, revision, Include::Metadata).await?;
        for page in pages {
            stores.apply(page);
        }
        cuts.push(cut);
    }
    Ok((stores, cuts))
}

/// Requests one list to its end, or up to [`MAX_COUNTED`] objects, page by page; also returns how many objects were
/// cut off.
pub(super) async fn whole_list(
    client: &Client,
    scope: &HistoryScope,
    revision: u64,
    include: Include,
) -> Result<(Vec<Delta>, usize), HistoryError> {
    let path = scope.path(client);
    let (delta, mut rest) = list(client, scope, &at(&path, revision, ""), include).await?;
    let mut pages = vec![delta];
    // Bounded, because a server may send pages that make no progress.
    for _ in 1..MAX_COUNTED / MAX_OBJECTS {
        let Some(next) = rest.next.take() else { break };
        let page = ListParams::default().limit(MAX_OBJECTS as u32).continue_token(&next);
        let request = Request::new(&path).list(&page);
        let request = request.map_err(|error| HistoryError::failed(error.to_string()))?;
        let (mut delta, more) = list(client, scope, &request.uri().to_string(), include).await?;
        delta.mark_partial();
        pages.push(delta);
        rest = more;
    }
    Ok((pages, rest.count))
}

/// Requests one page. `include` applies to resources that are listed as the server's Table.
async fn list(
    client: &Client,
    scope: &HistoryScope,
    url: &str,
    include: Include,
) -> Result<(Delta, ListRemainder), HistoryError> {
    let strange =
        |error: serde_json::Error| HistoryError::failed(format!("{}: {error}", scope.kind.heading()));
    if let Some(read) = builtin_kinds::reader(&scope.kind.resource) {
        let text = answered(client.request_text(get(url)?)).await?;
        return Ok((read(&text).map_err(strange)?, ListRemainder::of(&text)));
    }
    let mut request = get(&format!("{url}&includeObject={}", include.as_str()))?;
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
    let delta = Delta::of_table(scope.kind.resource.clone(), Some(table.column_definitions), rows);
    Ok((delta, ListRemainder::of(&text)))
}

/// Requests the past state of one object; `None` if it did not exist.
pub async fn object_at(client: &Client, object: &ObjectRef, revision: u64) -> Result<Option<Value>, String> {
    let scope = HistoryScope { name: None, ..HistoryScope::from(object) };
    let url = at(&scope.path(client), revision, &format!("&fieldSelector=metadata.name%3D{}", object.name));
    let objects: Objects = answered(client.request(get(&url)?)).await?;
    Ok(objects.items.into_iter().next().map(|mut found| {
        // Items of a list have no apiVersion and kind.
        if let Some(fields) = found.as_object_mut() {
            fields.insert("apiVersion".to_owned(), Value::String(object.kind.api_version()));
            fields.insert("kind".to_owned(), Value::String(object.kind.kind.clone()));
        }
        found
    }))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use k8s_openapi::api::core::v1::Pod;
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// Serves this many pages of one pod each; every page after the first must be requested with the token of the
    /// previous one.
    fn server(pages: usize, requests: Arc<AtomicUsize>) -> Client {
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let page = requests.fetch_add(1, Ordering::SeqCst);
            let query = request.uri().query().unwrap_or_default().to_owned();
            if page == 0 {
                assert!(query.contains("resourceVersion=20&resourceVersionMatch=Exact"), "{query}");
            } else {
                // A continue token must not be combined with a revision or a match.
                assert!(query.contains(&format!("continue=%26t%3D{page}")), "{query}");
                assert!(!query.contains("resourceVersion"), "{query}");
            }
            let left = pages - page - 1;
            let metadata = if left > 0 {
                json!({"continue": format!("&t={}", page + 1), "remainingItemCount": left})
            } else {
                json!({})
            };
            let pod = json!({"metadata": {"name": format!("p{page}"), "uid": format!("u{page}")},
                "spec": {"containers": []}, "status": {"phase": "Running"}});
            let list = json!({"kind": "PodList", "metadata": metadata, "items": [pod]}).to_string();
            async move { Ok::<_, Infallible>(http::Response::new(Body::from(list.into_bytes()))) }
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn past_counts_are_requested_page_by_page_up_to_a_limit_con_19() {
        let pods = || [HistoryScope { kind: builtin_kinds::kind::<Pod>(), namespace: None, name: None }];
        for (pages, page_requests, listed, cut) in [(1, 1, 1, 0), (3, 3, 3, 0), (1_000, 10, 10, 990)] {
            let requests = Arc::new(AtomicUsize::new(0));
            let client = server(pages, requests.clone());
            let (stores, cuts) = whole_stores_at(&client, &pods(), 20).await.unwrap();
            assert_eq!(requests.load(Ordering::SeqCst), page_requests, "of {pages}");
            assert_eq!((stores.pods().len(), cuts), (listed, vec![cut]), "of {pages}");
            let running = stores.pod_health_counts().get(&console_toolkit::health::Health::Running).copied();
            assert!(stores.pods().synced() && running == Some(listed), "of {pages}: {running:?}");
        }
    }
}
