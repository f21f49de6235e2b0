//! Somebody who stands between the clients and the server: a test that makes requests fail on purpose (FAULT-1).
//!
//! What comes by is told as an authorizer would see it; whether it is passed on, when, and what becomes of the answer
//! is the interceptor's to say.

use axum::extract::Request;
use axum::response::Response;
use futures::future::BoxFuture;
use http::header::USER_AGENT;

use super::Server;
use super::query::Query;
use super::request_info::{Asked, RequestInfo};

/// The server behind an interceptor.
pub struct Next(Server);

impl Next {
    /// Has the request answered.
    pub async fn run(self, request: Request) -> Response {
        self.0.respond(request).await
    }
}

/// Sees every request before the server does.
pub trait Interceptor: Send + Sync + 'static {
    /// Answers a request, by `next` or otherwise.
    fn intercept(&self, asked: Asked, request: Request, next: Next) -> BoxFuture<'static, Response>;
}

/// Has a request answered by who stands before the server.
pub(super) async fn by(interceptor: &dyn Interceptor, server: &Server, request: Request) -> Response {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    // What cannot be read is the server's to refuse.
    let Ok(info) = RequestInfo::of(request.method(), request.uri().path(), &query) else {
        return server.respond(request).await;
    };
    let agent = request.headers().get(USER_AGENT).and_then(|value| value.to_str().ok());
    let asked = Asked { user_agent: agent.unwrap_or_default().into(), ..info.asked() };
    interceptor.intercept(asked, request, Next(server.clone())).await
}
