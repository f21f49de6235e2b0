//! Sends arbitrary requests to the API's HTTP server: no response is a server error.

use api::{Api, ApiConfig};
use apiserver::{Credentials, Server, ServerConfig, TrustedConnection};
use axum::body::Body;
use base::clock::Clock;
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use store::Store;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// An in-memory server with the namespace `default`.
pub(super) struct HttpServer {
    pub(super) api: Api,
    server: Server,
    runtime: Runtime,
}

impl HttpServer {
    pub(super) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime of this thread");
        let api = Api::new(Store::ephemeral(), Clock::machine(), ApiConfig::default());
        let credentials = Credentials::new("");
        let server = Server::new(api.clone(), credentials, CancellationToken::new(), ServerConfig::default());
        let face = Self { api, server, runtime };
        let namespace = json!({"metadata": {"name": "default"}});
        face.send(Method::POST, "/api/v1/namespaces", "application/json", namespace.to_string().as_bytes());
        face
    }

    /// Sends a request; returns the status code and the JSON of the response.
    pub(super) fn send(&self, method: Method, path: &str, media_type: &str, body: &[u8]) -> (u16, Value) {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media_type)
            .body(Body::from(body.to_vec()))
            .expect("the fuzzer's paths are valid");
        request.extensions_mut().insert(TrustedConnection);
        let (code, body) = self.runtime.block_on(async {
            let response = self.server.handle(request).await;
            let code = response.status().as_u16();
            (code, response.into_body().collect().await.map(http_body_util::Collected::to_bytes))
        });
        let body: Value = body.ok().and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
        // For a value of a wrong type, Kubernetes itself responds with this message and code 500.
        let message = body["message"].as_str().unwrap_or_default();
        assert!(code < 500 || message.starts_with("failed to create typed patch object"), "{code}: {body}");
        (code, body)
    }
}
