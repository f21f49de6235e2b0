//! Probes of an extension API server, as the user that may read everything (`system:kube-aggregator`).

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::remote_server::{RemoteServer, ServerDialer};
use super::{DiscoveryResult, GroupVersion};
use crate::Api;
use crate::identity::User;
use crate::webhook_client::{Peer, exchange};

/// Concurrent attempts; one that succeeds is enough. Kubernetes' number.
const ATTEMPTS: usize = 5;
/// The timeout of each attempt; Kubernetes' value.
const TIMEOUT: Duration = Duration::from_secs(6);
/// The longest list of resources that is read: each is about 200 bytes.
const MAX_LIST: usize = 512 << 10;
/// The longest index of OpenAPI documents that is read.
const MAX_INDEX: usize = 64 << 10;

/// Probes a server and reads its discovery; errors are in Kubernetes' words.
pub(super) async fn probe(
    api: &Api,
    of: &GroupVersion,
    remote: &RemoteServer,
) -> Result<DiscoveryResult, String> {
    let dialler = remote.dialer(api)?;
    let mut attempts = FuturesUnordered::new();
    for _ in 0..ATTEMPTS {
        let (peer, dialler, path) = (remote.peer(api)?, dialler.clone(), remote.path());
        let url = format!("https://{peer}{path}");
        // Attempts run on the runtime of webhook calls, which uses the machine's clock.
        attempts.push(async move {
            let read = read(dialler.clone(), peer.clone(), path, MAX_LIST);
            match api
                .inner
                .caller
                .execute(async move { Ok(tokio::time::timeout(TIMEOUT, read).await) })
                .await
                .0
            {
                Ok(Ok(Ok((status, body)))) if status.is_success() => Ok((body, peer)),
                Ok(Ok(Ok((status, _)))) => Err(format!(
                    "failing or missing response from {url}: bad status from {url}: {}",
                    status.as_u16()
                )),
                Ok(Ok(Err(why))) => {
                    Err(format!("failing or missing response from {url}: Get \"{url}\": {why}"))
                }
                Ok(Err(_)) => Err(format!("timed out waiting for {url}")),
                Err(why) => Err(why),
            }
        });
    }
    let mut failed = String::new();
    let (list, peer) = loop {
        match attempts.next().await {
            Some(Ok(answered)) => break answered,
            Some(Err(why)) => failed = why,
            None => return Err(failed),
        }
    };
    drop(attempts);
    // The server is available, even if its discovery is unusable.
    let list = list.ok_or_else(|| format!("the response has more than {MAX_LIST} bytes or is incomplete"));
    let mut discovered = match list.and_then(|list| DiscoveryResult::of_list(of, &list)) {
        Ok(discovered) => discovered,
        Err(why) => {
            tracing::warn!("cannot list the resources of {}: {why}", of.name());
            return Ok(DiscoveryResult::default());
        }
    };
    let index = read(dialler, peer, "/openapi/v3".into(), MAX_INDEX);
    let index = api.inner.caller.execute(async move { Ok(tokio::time::timeout(TIMEOUT, index).await) }).await;
    if let Ok(Ok(Ok((status, Some(index))))) = index.0
        && status.is_success()
    {
        discovered.openapi_hash = openapi_hash(of, &index);
    }
    Ok(discovered)
}

/// Returns the hash of a group version's OpenAPI document, as the server's index has it: empty if the document's URL
/// has no hash, `None` if the index does not list the document or its URL is malformed.
fn openapi_hash(of: &GroupVersion, index: &[u8]) -> Option<String> {
    let index: Value = serde_json::from_slice(index).ok()?;
    let path = of.path();
    let url = index["paths"][path.trim_start_matches('/')]["serverRelativeURL"].as_str()?;
    let rest = url.strip_prefix("/openapi/v3")?.strip_prefix(&*path)?;
    let hash = rest.strip_prefix("?hash=").unwrap_or_default();
    hash.chars().all(|c| c.is_ascii_alphanumeric()).then(|| hash.to_string())
}

/// Reads a path; the body is `None` if it is longer than `max_bytes` bytes.
async fn read(
    dialler: ServerDialer,
    peer: Peer,
    path: String,
    max_bytes: usize,
) -> Result<(StatusCode, Option<Bytes>), String> {
    let mut request = Request::get(path)
        .header(HOST, peer.to_string())
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, "kube-aggregator")
        .body(Body::empty())
        .map_err(|error| error.to_string())?;
    User::aggregator().write_remote_headers(request.headers_mut()).map_err(|error| error.to_string())?;
    let socket = Box::new(dialler.dial(peer).await?);
    let (response, _open) = exchange(socket, request, &CancellationToken::new(), None).await?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, max_bytes).collect().await.ok();
    Ok((head.status, body.map(http_body_util::Collected::to_bytes)))
}
