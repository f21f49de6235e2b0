//! Routes a request to an Ingress by the current table.

use std::sync::Arc;

use http::StatusCode;
use parking_lot::RwLock;

use super::table::Table;
use crate::reverse_proxy::pools::Pools;
use crate::reverse_proxy::{Asked, Judge, Passage, Verdict};

/// The configuration that is currently served.
#[derive(Default)]
pub(super) struct Current {
    pub(super) table: Table,
    pub(super) pools: Pools,
}

/// Routes by the current configuration.
#[derive(Default)]
pub(super) struct IngressJudge {
    current: RwLock<Arc<Current>>,
    https_port: RwLock<u16>,
}

impl IngressJudge {
    pub(super) fn current(&self) -> Arc<Current> {
        self.current.read().clone()
    }

    /// Replaces the configuration.
    pub(super) fn replace(&self, current: Current) {
        *self.current.write() = Arc::new(current);
    }

    /// Sets the port that clients are redirected to for TLS.
    pub(super) fn set_https_port(&self, port: u16) {
        *self.https_port.write() = port;
    }

    fn to_https(&self, asked: &Asked<'_>) -> Verdict {
        let path = asked.uri.path_and_query().map_or("/", |path| path.as_str());
        let port = match *self.https_port.read() {
            443 => String::new(),
            port => format!(":{port}"),
        };
        Verdict::Redirect(StatusCode::PERMANENT_REDIRECT, format!("https://{}{port}{path}", asked.host.name))
    }
}

impl Judge for IngressJudge {
    fn judge(&self, asked: &Asked<'_>) -> Verdict {
        let current = self.current();
        let Some(route) = current.table.find(&asked.host.name, &asked.path.decoded) else {
            return Verdict::Say(StatusCode::NOT_FOUND, "default backend - 404");
        };
        let options = &route.options;
        let redirects =
            options.force_ssl_redirect || (options.ssl_redirect && current.table.has_tls(&asked.host.name));
        if redirects && !asked.is_tls {
            return self.to_https(asked);
        }
        Verdict::PassOn(Box::new(Passage {
            rule: route.ingress.clone(),
            authority: asked.host.authority.clone(),
            uri: route.onward(asked.path, asked.uri.query()),
            pool: route.backend.as_ref().and_then(|backend| current.pools.get(backend)).cloned(),
            options: options.passing.clone(),
            request_headers: Vec::new(),
            response_headers: Vec::new(),
            mirrors: Vec::new(),
        }))
    }
}
