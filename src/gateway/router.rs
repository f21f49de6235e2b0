//! Routes a request to a Gateway by the current table of its port.

use std::collections::HashMap;
use std::sync::Arc;

use http::StatusCode;
use parking_lot::RwLock;

use super::filters::{Filter, Redirect};
use super::matches::PathMatch;
use super::resolve::Target;
use super::table::{Entry, Table};
use reverse_proxy::pools::Pools;
use reverse_proxy::{ForwardPlan, RequestHead, RouteDecision, Router};

/// The configuration that is currently served.
#[derive(Default)]
pub(super) struct ServingState {
    pub(super) table: Table,
    pub(super) pools: Arc<Pools>,
    /// The requested ports that were moved, with the actual ports.
    pub(super) moved: HashMap<u16, u16>,
}

/// Routes by the current configuration.
#[derive(Default)]
pub(super) struct GatewayRouter(RwLock<Arc<ServingState>>);

impl GatewayRouter {
    /// Replaces the configuration.
    pub(super) fn replace(&self, current: ServingState) {
        *self.0.write() = Arc::new(current);
    }
}

impl Router for GatewayRouter {
    fn route(&self, head: &RequestHead<'_>) -> RouteDecision {
        let current = self.0.read().clone();
        decide(&current, head)
    }
}

fn decide(current: &ServingState, head: &RequestHead<'_>) -> RouteDecision {
    let Some(listener) = current.table.listener_of(&head.host.name) else {
        return RouteDecision::Refuse(StatusCode::NOT_FOUND);
    };
    // If the TLS connection is for another listener's host, it has that listener's certificate: refuse (RFC 9110,
    // 15.5.20).
    let tls_listener = head.server_name.and_then(|name| current.table.listener_of(name));
    if head.server_name.is_some() && !tls_listener.is_some_and(|other| std::ptr::eq(other, listener)) {
        return RouteDecision::Refuse(StatusCode::MISDIRECTED_REQUEST);
    }
    match listener.find(head) {
        Some(entry) => follow(current, head, entry),
        None => RouteDecision::Refuse(StatusCode::NOT_FOUND),
    }
}

/// Applies a rule to a request.
fn follow(current: &ServingState, head: &RequestHead<'_>, Entry { matching, rule }: &Entry) -> RouteDecision {
    let prefix = match &matching.path {
        PathMatch::Prefix(prefix) => prefix.as_str(),
        PathMatch::Exact(_) | PathMatch::Pattern(_) => "",
    };
    let request_number = rule.next_request();
    let choice = rule.choose(request_number);
    let mut plan = ForwardPlan {
        rule: rule.route.clone(),
        authority: head.host.authority.clone(),
        uri: String::new(),
        pool: None,
        options: choice.map(|choice| choice.options.clone()).unwrap_or_default(),
        request_headers: Vec::new(),
        response_headers: Vec::new(),
        mirrors: Vec::new(),
    };
    let mut path = head.path.encoded.clone();
    let of_choice = choice.map(|choice| choice.filters.as_slice()).unwrap_or_default();
    for filter in rule.filters.iter().chain(of_choice) {
        match filter {
            Filter::RequestHeaders(edits) => plan.request_headers.push(edits.clone()),
            Filter::ResponseHeaders(edits) => plan.response_headers.push(edits.clone()),
            Filter::Redirect(redirect) => return redirect_decision(current, head, redirect, prefix),
            Filter::Rewrite(rewrite) => {
                if let Some(edit) = &rewrite.path {
                    path = edit.apply(head.path, prefix);
                }
                if let Some(hostname) = &rewrite.hostname {
                    plan.authority.clone_from(hostname);
                }
            }
            Filter::Mirror(target, share) => {
                let pool = target.as_ref().and_then(|Target { backend, protocol }| {
                    Some((current.pools.get(backend)?.clone(), *protocol))
                });
                plan.mirrors.extend(pool.filter(|_| share.selects(request_number)));
            }
        }
    }
    let Some(target) = choice.and_then(|choice| choice.target.as_ref()) else {
        return RouteDecision::Refuse(StatusCode::INTERNAL_SERVER_ERROR);
    };
    plan.pool = current.pools.get(&target.backend).cloned();
    plan.uri = with_query(path, head);
    RouteDecision::Forward(Box::new(plan))
}

fn with_query(mut path: String, head: &RequestHead<'_>) -> String {
    if let Some(query) = head.uri.query() {
        path.push('?');
        path.push_str(query);
    }
    path
}

fn redirect_decision(
    current: &ServingState,
    head: &RequestHead<'_>,
    redirect: &Redirect,
    prefix: &str,
) -> RouteDecision {
    let scheme = redirect.scheme.unwrap_or(if head.is_tls { "https" } else { "http" });
    let well_known = if scheme == "https" { 443 } else { 80 };
    let port = match (redirect.port, redirect.scheme) {
        (Some(port), _) => current.really(port),
        (None, Some(_)) => current.really(well_known),
        (None, None) => head.port,
    };
    let port = if port == well_known { String::new() } else { format!(":{port}") };
    let host = redirect.hostname.as_deref().unwrap_or(&head.host.name);
    let path = match &redirect.path {
        Some(edit) => edit.apply(head.path, prefix),
        None => head.path.encoded.clone(),
    };
    RouteDecision::Redirect(redirect.status, format!("{scheme}://{host}{port}{}", with_query(path, head)))
}

impl ServingState {
    /// Returns the port at which a requested port is really served.
    fn really(&self, port: u16) -> u16 {
        self.moved.get(&port).copied().unwrap_or(port)
    }
}
