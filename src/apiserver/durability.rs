//! Responses leave only after the state they show is durable.
//!
//! Memory is ahead of the disk by the writes that are being synced. A crash would revoke a response that
//! showed them: the object would be gone, its revision given to another, and a watch from that revision would
//! not notice. So every response about stored objects waits, refusals too (a conflict, a name that is taken,
//! a deleted object); mostly the state is durable already. Control loops in this process do not wait: a crash
//! ends them together with the state they saw.

use axum::response::Response;

use super::Server;
use api::ApiError;
use api::StoreError;
use object::{Revision, Subresource};

/// The newest revision that a response shows, stored in the response's extensions. A response without it
/// counts as showing the store's newest revision.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShownRevision(pub(super) Revision);

impl ShownRevision {
    /// Declares that the response shows nothing newer than `revision`.
    pub(super) fn up_to(revision: Revision, mut response: Response) -> Response {
        response.extensions_mut().insert(Self(revision));
        response
    }
}

/// Returns true for subresources that show a node's data and nothing that is stored.
pub(super) fn is_of_the_node(part: Option<Subresource>) -> bool {
    use Subresource::{Attach, Exec, Log, PortForward, Proxy};
    matches!(part, Some(Log | Exec | Attach | PortForward | Proxy))
}

/// Delays a response until its revision is durable.
pub(super) async fn once_durable(
    server: &Server,
    outcome: Result<Response, ApiError>,
) -> Result<Response, ApiError> {
    // Read after the outcome, which therefore shows nothing newer.
    let current = server.api().revision();
    let shown = match &outcome {
        Ok(response) => {
            response.extensions().get::<ShownRevision>().map_or(current, |shown| shown.0.min(current))
        }
        // The error says that the disk fails or has not responded, so waiting for it is useless.
        Err(ApiError::Internal(_) | ApiError::Timeout(_)) => return outcome,
        Err(_) => current,
    };
    match server.api().durable(shown).await {
        Ok(()) => outcome,
        Err(StoreError::Undecided(reason)) => Err(ApiError::Unavailable(format!(
            "the data directory cannot be written: {reason}; the response is withheld because a crash could undo it"
        ))),
        Err(error) => Err(not_durable(error)),
    }
}

impl Server {
    /// Waits until everything up to `revision` survives a crash.
    pub(super) async fn durable(&self, revision: Revision) -> Result<(), ApiError> {
        self.api().durable(revision).await.map_err(not_durable)
    }
}

/// Returns the error for a write that the store could not make durable.
fn not_durable(error: StoreError) -> ApiError {
    match error {
        StoreError::Undecided(_) => ApiError::Timeout(error.to_string()),
        other => ApiError::Internal(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::Request;
    use futures::FutureExt;
    use http::{Method, StatusCode};
    use http_body_util::BodyExt;
    use serde_json::{Value, json};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{Credentials, ServerConfig, TrustedConnection};
    use api::{Api, ApiConfig};
    use base::clock::Clock;
    use store::Store;
    use store::faults::DiskFault;

    const MAPS: &str = "/api/v1/namespaces/default/configmaps";

    struct Fixture {
        store: Store,
        server: Server,
        _directory: tempfile::TempDir,
    }

    impl Fixture {
        async fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let store = Store::open(&directory.path().join("state")).unwrap();
            let api = Api::new(store.clone(), Clock::machine(), ApiConfig::default());
            let server = Server::new(
                api,
                Credentials::new("token"),
                CancellationToken::new(),
                ServerConfig::default(),
            );
            let fixture = Self { store, server, _directory: directory };
            let namespace = json!({"metadata": {"name": "default"}});
            fixture.send_request(Method::POST, "/api/v1/namespaces", &namespace).await;
            fixture.send_request(Method::POST, MAPS, &named("old")).await;
            fixture
        }

        /// Returns the response's status and JSON.
        async fn send_request(&self, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
            let mut request = Request::builder()
                .method(method)
                .uri(path)
                .header("content-type", "application/json")
                .body(Body::from(body.to_string()))
                .unwrap();
            request.extensions_mut().insert(TrustedConnection);
            let response = self.server.handle(request).await;
            let status = response.status();
            let mut bytes = response.into_body();
            let mut text = Vec::new();
            // The first chunk of a watch is enough.
            while let Some(Ok(frame)) = bytes.frame().await {
                if let Some(data) = frame.data_ref() {
                    text.extend_from_slice(data);
                }
                if path.contains("watch") {
                    break;
                }
            }
            (status, serde_json::from_slice(&text).unwrap_or(Value::Null))
        }
    }

    fn named(name: &str) -> Value {
        json!({"metadata": {"name": name}})
    }

    /// Every response that shows a write waits for the disk (SAFE-2).
    #[tokio::test]
    async fn nothing_is_shown_before_it_is_durable() {
        let fixture = Fixture::new().await;
        fixture.store.faults().set_disk(DiskFault::Hang);
        let durable = fixture.store.revision();
        let (nothing, get, taken) = (json!({}), Method::GET, named("new"));
        let (new, old) = (format!("{MAPS}/new"), format!("{MAPS}/old"));
        let dry_run = format!("{new}?dryRun=All");
        let mut writes = fixture.send_request(Method::POST, MAPS, &taken).boxed_local();
        assert!(futures::poll!(&mut writes).is_pending(), "a write waits, as ever");
        assert!(fixture.store.revision() > durable);
        let table = "/api/v1/namespaces/default/configmaps?limit=1";
        let watch = format!("{MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
        let mut reads: Vec<_> =
            [new.as_str(), MAPS, table, watch.as_str(), "/api/v1/namespaces/default/configmaps/none"]
                .into_iter()
                .map(|path| fixture.send_request(get.clone(), path, &nothing).boxed_local())
                .collect();
        reads.push(fixture.send_request(Method::POST, MAPS, &taken).boxed_local());
        reads.push(fixture.send_request(Method::PUT, &dry_run, &taken).boxed_local());
        for _ in 0..20 {
            for read in &mut reads {
                assert!(futures::poll!(read).is_pending(), "it shows what a crash would take back");
            }
            tokio::task::yield_now().await;
        }
        let (status, shown) = fixture.send_request(get.clone(), &old, &nothing).await;
        assert_eq!((status, &shown["metadata"]["name"]), (StatusCode::OK, &json!("old")), "it is durable");
        let (status, _) = fixture.send_request(get, "/api/v1", &nothing).await;
        assert_eq!(status, StatusCode::OK, "a response without stored objects does not wait");

        fixture.store.faults().set_disk(DiskFault::None);
        let (status, created) = writes.await;
        assert_eq!(status, StatusCode::CREATED, "{created}");
        let answers = futures::future::join_all(reads).await;
        let codes: Vec<u16> = answers.iter().map(|(status, _)| status.as_u16()).collect();
        assert_eq!(codes, [200, 200, 200, 200, 404, 409, 200]);
        assert_eq!(answers[0].1["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    }

    /// The revision that a deletion of a collection reports is durable too.
    #[tokio::test]
    async fn a_deletion_of_many_tells_a_revision_that_is_durable() {
        let fixture = Fixture::new().await;
        let (status, list) = fixture.send_request(Method::DELETE, MAPS, &json!({})).await;
        assert_eq!(status, StatusCode::OK);
        let revision: u64 = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(fixture.store.durable(Revision(revision)).now_or_never().unwrap().is_ok());
    }

    /// Clients learn from `/readyz` that writes are refused before they try one, and when they work again.
    #[tokio::test]
    async fn readiness_fails_while_writes_are_refused_and_comes_back() {
        let fixture = Fixture::new().await;
        let (ready, nothing) = ("/readyz", json!({}));
        let status = async |path: &str| fixture.send_request(Method::GET, path, &nothing).await.0;
        assert_eq!(status(ready).await, StatusCode::OK);
        fixture.store.faults().set_disk(DiskFault::Fail);
        let (refused, _) = fixture.send_request(Method::POST, MAPS, &named("new")).await;
        assert!(refused.is_server_error(), "{refused}");
        assert_eq!(status(ready).await, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(status("/livez").await, StatusCode::OK, "a restart would not help");
        let (new, old) = (format!("{MAPS}/new"), format!("{MAPS}/old"));
        assert_eq!(status(&new).await, StatusCode::SERVICE_UNAVAILABLE, "it may be lost yet");
        assert_eq!(status(&old).await, StatusCode::OK);
        fixture.store.faults().set_disk(DiskFault::None);
        while status(ready).await != StatusCode::OK {
            tokio::task::yield_now().await;
        }
        assert_eq!(status(&new).await, StatusCode::OK);
    }
}
