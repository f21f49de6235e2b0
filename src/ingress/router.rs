//! Routes a request to an Ingress by the current table.

use std::sync::Arc;

use http::StatusCode;
use parking_lot::RwLock;

use super::table::Table;
use reverse_proxy::pools::Pools;
use reverse_proxy::{ForwardPlan, RequestHead, RouteDecision, Router};

/// The configuration that is currently served.
#[derive(Default)]
pub(super) struct ServingState {
    pub(super) table: Table,
    pub(super) pools: Pools,
}

/// Routes by the current configuration.
#[derive(Default)]
pub(super) struct IngressRouter {
    current: RwLock<Arc<ServingState>>,
    https_port: RwLock<u16>,
}

impl IngressRouter {
    pub(super) fn current(&self) -> Arc<ServingState> {
        self.current.read().clone()
    }

    /// Replaces the configuration.
    pub(super) fn replace(&self, current: ServingState) {
        *self.current.write() = Arc::new(current);
    }

    /// Sets the port that clients are redirected to for TLS.
    pub(super) fn set_https_port(&self, port: u16) {
        *self.https_port.write() = port;
    }

    fn to_https(&self, head: &RequestHead<'_>) -> RouteDecision {
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let port = match *self.https_port.read() {
            443 => String::new(),
            port => format!(":{port}"),
        };
        RouteDecision::Redirect(
            StatusCode::PERMANENT_REDIRECT,
            format!("https://{}{port}{path}", head.host.name),
        )
    }
}

impl Router for IngressRouter {
    fn route(&self, head: &RequestHead<'_>) -> RouteDecision {
        let current = self.current();
        let Some(route) = current.table.find(&head.host.name, &head.path.decoded) else {
            return RouteDecision::RefuseWithText(StatusCode::NOT_FOUND, "default backend - 404");
        };
        let options = &route.options;
        let redirects =
            options.force_ssl_redirect || (options.ssl_redirect && current.table.has_tls(&head.host.name));
        if redirects && !head.is_tls {
            return self.to_https(head);
        }
        RouteDecision::Forward(Box::new(ForwardPlan {
            rule: route.ingress.clone(),
            authority: head.host.authority.clone(),
            uri: route.onward(head.path, head.uri.query()),
            pool: route.backend.as_ref().and_then(|backend| current.pools.get(backend)).cloned(),
            options: options.forwarding.clone(),
            request_headers: Vec::new(),
            response_headers: Vec::new(),
            mirrors: Vec::new(),
        }))
    }
}
