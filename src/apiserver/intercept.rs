//! An interceptor between the clients and the server: a test that makes requests fail on purpose (FAULT-1).
//!
//! It sees each request's attributes as an authorizer would, and decides whether and when to pass it on and
//! what becomes of the response.

use axum::extract::Request;
use axum::response::Response;
use futures::future::BoxFuture;
use http::header::USER_AGENT;

use super::Server;
use super::query::Query;
use super::request_info::{RequestAttributes, RequestInfo};

/// The server behind an interceptor.
pub struct Next(Server);

impl Next {
    /// Passes the request to the server.
    pub async fn run(self, request: Request) -> Response {
        self.0.respond(request).await
    }
}

/// Intercepts every request before the server handles it.
pub trait Interceptor: Send + Sync + 'static {
    /// Responds to a request, through `next` or otherwise.
    fn intercept(
        &self,
        attributes: RequestAttributes,
        request: Request,
        next: Next,
    ) -> BoxFuture<'static, Response>;
}

/// Passes a request to the interceptor.
pub(super) async fn by(interceptor: &dyn Interceptor, server: &Server, request: Request) -> Response {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    // The server itself refuses unreadable requests.
    let Ok(info) = RequestInfo::of(request.method(), request.uri().path(), &query) else {
        return server.respond(request).await;
    };
    let agent = request.headers().get(USER_AGENT).and_then(|value| value.to_str().ok());
    let attributes = RequestAttributes { user_agent: agent.unwrap_or_default().into(), ..info.attributes() };
    interceptor.intercept(attributes, request, Next(server.clone())).await
}
