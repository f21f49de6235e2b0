//! A client that cannot change the cluster: the last defence in read-only mode, regardless of what screens and tasks
//! attempt. Refusing keys earlier (see `command::CommandImpact`) only improves the message.

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use object::well_known::parameter::PODIUM_NETWORK;
use serde_json::json;
use tower::Service;

/// Wraps a client so that it refuses requests that change anything.
pub fn client(inner: Client) -> Client {
    let namespace = inner.default_namespace().to_owned();
    Client::new(ReadOnly(inner), namespace)
}

/// Returns the refusal of a command, for its user.
pub fn command_refusal(command: &str) -> String {
    format!("read-only: {command:?} changes the cluster")
}

struct ReadOnly(Client);

impl Service<Request<Body>> for ReadOnly {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if changes(request.method(), request.uri()) {
            return Box::pin(std::future::ready(Ok(refusal())));
        }
        let inner = self.0.clone();
        Box::pin(async move { inner.send(request).await })
    }
}

/// Reports whether a request may change the cluster, or state in a container.
fn changes(method: &Method, uri: &http::Uri) -> bool {
    let dry = uri.query().is_some_and(|query| query.split('&').any(|part| part == "dryRun=All"));
    let mut segments = uri.path().rsplit('/');
    let (last, _, kind) = (segments.next().unwrap_or_default(), segments.next(), segments.next());
    // These requests are GETs, but act inside the container. Objects of other kinds may have such a name, too.
    let inside = kind == Some("pods") && matches!(last, "exec" | "attach" | "portforward");
    // Podium's report on the pod's network: without a command it executes nothing there.
    let mut parameters =
        uri.query().unwrap_or_default().split('&').map(|word| word.split('=').next().unwrap_or_default());
    let runs = parameters.clone().any(|word| ![PODIUM_NETWORK, "to", "protocol"].contains(&word));
    let inside = inside && (runs || last != "exec" || !parameters.any(|word| word == PODIUM_NETWORK));
    let is_review = last.starts_with("selfsubject");
    inside || !(dry || is_review || matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS))
}

fn refusal() -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "read-only: nothing was changed", "reason": "Forbidden", "code": 403,
    });
    let mut response = Response::new(Body::from(status.to_string().into_bytes()));
    *response.status_mut() = StatusCode::FORBIDDEN;
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_lets_looking_pass_and_nothing_else_con_3() {
        for (method, uri, refused) in [
            (Method::GET, "/api/v1/pods?watch=true", false),
            (Method::GET, "/api/v1/namespaces/a/pods/exec", false),
            (Method::GET, "/api/v1/namespaces/a/pods/x/log?follow=true", false),
            (Method::GET, "/api/v1/namespaces/a/pods/x/exec?command=sh", true),
            (
                Method::GET,
                "/api/v1/namespaces/a/pods/x/exec?podium.dev/network=connect&to=10.0.0.1:80",
                false,
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a/pods/x/exec?podium.dev/network=listeners&protocol=UDP",
                false,
            ),
            (Method::GET, "/api/v1/namespaces/a/pods/x/exec?podium.dev/network=listeners&command=sh", true),
            (Method::GET, "/api/v1/namespaces/a/pods/x/exec?podium.dev/network=listeners&comm%61nd=sh", true),
            (Method::GET, "/api/v1/namespaces/a/pods/x/exec", true),
            (Method::POST, "/api/v1/namespaces/a/pods/x/exec?podium.dev/network=listeners", true),
            (Method::GET, "/api/v1/namespaces/a/pods/x/attach?podium.dev/network=listeners", true),
            (Method::GET, "/api/v1/namespaces/a/pods/x/attach", true),
            (Method::POST, "/api/v1/namespaces/a/pods/x/eviction", true),
            (Method::PATCH, "/apis/apps/v1/namespaces/a/deployments/x", true),
            (Method::PATCH, "/apis/apps/v1/namespaces/a/deployments/x?dryRun=All&force=true", false),
            (Method::PATCH, "/apis/apps/v1/namespaces/a/deployments/x?note=dryRun=Al", true),
            (Method::DELETE, "/api/v1/namespaces/a/pods/x", true),
            (Method::PUT, "/api/v1/namespaces/a/pods/x", true),
            (Method::POST, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", false),
        ] {
            assert_eq!(changes(&method, &uri.parse().expect("a path")), refused, "{method} {uri}");
        }
    }
}
