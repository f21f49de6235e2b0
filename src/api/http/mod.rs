//! The API over HTTP: a thin face over [`Api`] that waits for durability before it answers.
//!
//! One service serves TLS connections and in-process pipes alike. Requests are taken apart by
//! [`request::Target`] rather than by routes, because the Kind table, not code, says what exists.
//!
//! Architecture Invariant: no rule about objects lives here; this is encoding, negotiation and streaming.

mod auth;
mod body;
mod channels;
pub mod discovery;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod list;
mod list_options;
mod logs;
mod metrics;
mod negotiate;
pub mod openapi;
mod patching;
mod port_forward;
pub mod protobuf;
mod proxy;
mod request;
mod resource;
mod respond;
mod review;
mod sessions;
mod shown;
mod spdy;
mod strict;
pub mod table;
#[cfg(test)]
mod tests;
mod tls;
mod upgrade;
mod verdicts;
mod watch;
mod write_options;

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::header::{ACCEPT, HOST};
use http::{Method, StatusCode};
use tokio_util::sync::CancellationToken;

use super::{Api, ApiError};
pub use auth::{Credentials, Trusted};
use request::{Target, Wanted, not_allowed};
use respond::Answer;
pub use tls::{CertificateAuthority, TlsError, serve_tls};

/// What every request needs.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    api: Api,
    credentials: Credentials,
    pages: list::Pages,
    /// Long requests (watches, logs) end when the server stops.
    stopping: CancellationToken,
}

impl Server {
    /// A server of this API for clients with these credentials.
    pub fn new(api: Api, credentials: Credentials, stopping: CancellationToken) -> Self {
        let inner = Inner { api, credentials, pages: list::Pages::default(), stopping };
        Self { inner: Arc::new(inner) }
    }

    fn api(&self) -> &Api {
        &self.inner.api
    }

    /// Answers one request.
    pub async fn handle(&self, request: Request) -> Response {
        let wanted = Wanted::of(&request);
        match self.answer(request, &wanted).await {
            Ok(response) => response,
            Err(error) => Answer::error(&error),
        }
    }

    async fn answer(&self, request: Request, wanted: &Wanted) -> Result<Response, ApiError> {
        // Health is asked before anybody has credentials.
        if matches!(request.uri().path(), "/healthz" | "/livez" | "/readyz") {
            if request.uri().path() == "/readyz"
                && let Some(reason) = self.api().refuses_writes()
            {
                return Ok(Answer::unready(&reason));
            }
            return Ok(Answer::text("ok"));
        }
        let user = self.inner.credentials.identify(self.api(), &request)?;
        match Target::parse(request.uri().path())? {
            Target::Resource(target) if shown::is_of_the_node(target.subresource) => {
                resource::answer(self, target, request, wanted).await
            }
            Target::Resource(target) => {
                shown::once_durable(self, resource::answer(self, target, request, wanted).await).await
            }
            Target::Review(review) => review::answer(self, &review, &user, request).await,
            Target::Bindings { namespace } => match *request.method() {
                Method::POST => resource::bind(self, &namespace, None, request).await,
                _ => Err(not_allowed()),
            },
            Target::Metrics(target) => metrics::answer(self, &target, request.method(), wanted),
            Target::Verdicts(target) => verdicts::answer(self, &target, request.method(), wanted),
            Target::Document => documents(self.api(), &request),
        }
    }
}

/// Discovery, schemas and the version.
fn documents(api: &Api, request: &Request) -> Result<Response, ApiError> {
    let header = |name| request.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or("");
    let path = request.uri().path();
    let json =
        |body: &Bytes| -> Result<Response, ApiError> { Ok(Answer::bytes(StatusCode::OK, body.clone())) };
    // HTTP/2 names the server in the URI, HTTP/1 in a header.
    let server = request.uri().authority().map_or_else(|| header(HOST), http::uri::Authority::as_str);
    match path {
        "/openid/v1/jwks" => {
            let keys = api.token_keys().to_string();
            return Ok(Answer::typed(StatusCode::OK, "application/jwk-set+json", keys.into()));
        }
        "/.well-known/openid-configuration" => return Answer::json(StatusCode::OK, &review::openid(server)),
        _ => {}
    }
    match path.strip_prefix("/openapi/") {
        Some("v3") => json(openapi::index()),
        Some("v2") if header(ACCEPT).contains(openapi::PROTOBUF_2) => {
            let body = openapi::version_2_protobuf().clone();
            Ok(Answer::typed(StatusCode::OK, openapi::PROTOBUF_2_ANSWER, body.into()))
        }
        Some("v2") => json(openapi::version_2()),
        Some(rest) => {
            let document = rest.strip_prefix("v3/").and_then(openapi::version_3);
            document.map_or(Err(ApiError::NoSuchResource), |(body, _)| json(body))
        }
        None => discovery::document(path, header(ACCEPT), server)
            .map(|document| Answer::typed(StatusCode::OK, document.content_type, document.body.into()))
            .ok_or(ApiError::NoSuchResource),
    }
}
