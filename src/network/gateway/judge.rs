//! Routes a request to a Gateway by the current table of its port.

use std::collections::HashMap;
use std::sync::Arc;

use http::StatusCode;
use parking_lot::RwLock;

use super::filters::{Filter, Redirect};
use super::matches::PathMatch;
use super::resolve::Target;
use super::table::{Entry, Table};
use crate::reverse_proxy::pools::Pools;
use crate::reverse_proxy::{Asked, Judge, Passage, Verdict};

/// The configuration that is currently served.
#[derive(Default)]
pub(super) struct Current {
    pub(super) table: Table,
    pub(super) pools: Arc<Pools>,
    /// The requested ports that were moved, with the actual ports.
    pub(super) moved: HashMap<u16, u16>,
}

/// Routes by the current configuration.
#[derive(Default)]
pub(super) struct GatewayJudge(RwLock<Arc<Current>>);

impl GatewayJudge {
    /// Replaces the configuration.
    pub(super) fn replace(&self, current: Current) {
        *self.0.write() = Arc::new(current);
    }
}

impl Judge for GatewayJudge {
    fn judge(&self, asked: &Asked<'_>) -> Verdict {
        let current = self.0.read().clone();
        judge(&current, asked)
    }
}

fn judge(current: &Current, asked: &Asked<'_>) -> Verdict {
    let Some(listener) = current.table.listener_of(&asked.host.name) else {
        return Verdict::Refuse(StatusCode::NOT_FOUND);
    };
    // A TLS connection for another listener's host has that listener's certificate (RFC 9110, 15.5.20).
    let begun_for = asked.server_name.and_then(|name| current.table.listener_of(name));
    if asked.server_name.is_some() && !begun_for.is_some_and(|begun| std::ptr::eq(begun, listener)) {
        return Verdict::Refuse(StatusCode::MISDIRECTED_REQUEST);
    }
    match listener.find(asked) {
        Some(entry) => follow(current, asked, entry),
        None => Verdict::Refuse(StatusCode::NOT_FOUND),
    }
}

/// Applies a rule to a request.
fn follow(current: &Current, asked: &Asked<'_>, Entry { matching, rule }: &Entry) -> Verdict {
    let prefix = match &matching.path {
        PathMatch::Prefix(prefix) => prefix.as_str(),
        PathMatch::Exact(_) | PathMatch::Pattern(_) => "",
    };
    let turn = rule.turn();
    let choice = rule.choose(turn);
    let mut passage = Passage {
        rule: rule.route.clone(),
        authority: asked.host.authority.clone(),
        uri: String::new(),
        pool: None,
        options: choice.map(|choice| choice.options.clone()).unwrap_or_default(),
        request_headers: Vec::new(),
        response_headers: Vec::new(),
        mirrors: Vec::new(),
    };
    let mut path = asked.path.sent.clone();
    let of_choice = choice.map(|choice| choice.filters.as_slice()).unwrap_or_default();
    for filter in rule.filters.iter().chain(of_choice) {
        match filter {
            Filter::RequestHeaders(edits) => passage.request_headers.push(edits.clone()),
            Filter::ResponseHeaders(edits) => passage.response_headers.push(edits.clone()),
            Filter::Redirect(redirect) => return sent_elsewhere(current, asked, redirect, prefix),
            Filter::Rewrite(rewrite) => {
                if let Some(edit) = &rewrite.path {
                    path = edit.apply(asked.path, prefix);
                }
                if let Some(hostname) = &rewrite.hostname {
                    passage.authority.clone_from(hostname);
                }
            }
            Filter::Mirror(target, share) => {
                let pool = target.as_ref().and_then(|Target { backend, protocol }| {
                    Some((current.pools.get(backend)?.clone(), *protocol))
                });
                passage.mirrors.extend(pool.filter(|_| share.has(turn)));
            }
        }
    }
    let Some(target) = choice.and_then(|choice| choice.target.as_ref()) else {
        return Verdict::Refuse(StatusCode::INTERNAL_SERVER_ERROR);
    };
    passage.pool = current.pools.get(&target.backend).cloned();
    passage.uri = with_query(path, asked);
    Verdict::PassOn(Box::new(passage))
}

fn with_query(mut path: String, asked: &Asked<'_>) -> String {
    if let Some(query) = asked.uri.query() {
        path.push('?');
        path.push_str(query);
    }
    path
}

fn sent_elsewhere(current: &Current, asked: &Asked<'_>, redirect: &Redirect, prefix: &str) -> Verdict {
    let scheme = redirect.scheme.unwrap_or(if asked.is_tls { "https" } else { "http" });
    let well_known = if scheme == "https" { 443 } else { 80 };
    let port = match (redirect.port, redirect.scheme) {
        (Some(port), _) => current.really(port),
        (None, Some(_)) => current.really(well_known),
        (None, None) => asked.port,
    };
    let port = if port == well_known { String::new() } else { format!(":{port}") };
    let host = redirect.hostname.as_deref().unwrap_or(&asked.host.name);
    let path = match &redirect.path {
        Some(edit) => edit.apply(asked.path, prefix),
        None => asked.path.sent.clone(),
    };
    Verdict::Redirect(redirect.status, format!("{scheme}://{host}{port}{}", with_query(path, asked)))
}

impl Current {
    /// Returns the port at which a requested port is really served.
    fn really(&self, port: u16) -> u16 {
        self.moved.get(&port).copied().unwrap_or(port)
    }
}
