//! Attachment of routes to listeners, and the reason if a route cannot be attached.

use super::hosts::intersection;
use super::listener::{GatewayView, ListenerView};
use super::problem::Cause;
use super::resources::{GROUP, Labels, ParentRef};
use super::route::Route;
use base::sort::SliceOrder;
use object::Key;

/// The attachment of a route to one of its parents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AttachResult {
    /// The listeners, by index in the Gateway, each with the hostnames that it has in common with the route; an empty
    /// hostname matches any.
    pub(super) listeners: Vec<(usize, Vec<String>)>,
    /// The reason why the route is attached to no listener.
    pub(super) refused: Option<Cause>,
}

impl ParentRef {
    /// Returns the Gateway that the reference names; `None` if it names another kind.
    pub(super) fn gateway(&self, namespace: &str) -> Option<Key> {
        let is_gateway = self.group.as_deref().is_none_or(|group| group == GROUP)
            && self.kind.as_deref().is_none_or(|kind| kind == "Gateway");
        let own = self.namespace.as_deref().filter(|named| !named.is_empty()).unwrap_or(namespace);
        is_gateway.then(|| Key::new(own, self.name.as_str()))
    }

    fn means(&self, listener: &ListenerView) -> bool {
        let by_name = self.section_name.as_deref().filter(|name| !name.is_empty());
        by_name.is_none_or(|name| name == listener.name)
            && self.port.is_none_or(|port| port == i64::from(listener.port))
    }
}

/// Attaches a route to a Gateway as one of its parent references requests; `labels` are those of the route's namespace.
pub(super) fn attach(
    route: &Route,
    parent: &ParentRef,
    gateway: &GatewayView,
    labels: Option<&Labels>,
) -> AttachResult {
    let refuse = |reason, message: String| AttachResult {
        listeners: Vec::new(),
        refused: Some(Cause::new(reason, message)),
    };
    let numbered = || gateway.listeners.iter().enumerate();
    let meant: Vec<_> = numbered().filter(|(_, listener)| parent.means(listener)).collect();
    if meant.is_empty() {
        return refuse(
            "NoMatchingParent",
            format!("Gateway \"{}\" has no listener with this name and port", gateway.key),
        );
    }
    let namespace = &route.key.namespace;
    let allowed = meant.into_iter().filter(|(_, listener)| {
        listener.takes_routes && listener.takes_from(&gateway.key, namespace, labels)
    });
    let allowed: Vec<_> = allowed.collect();
    if allowed.is_empty() {
        let message = format!("no listener allows HTTPRoutes of namespace {namespace}");
        return refuse("NotAllowedByListeners", message);
    }
    let common = allowed.into_iter().filter_map(|(at, listener)| {
        let names = in_common(&listener.hostname, &route.hostnames);
        (!names.is_empty()).then_some((at, names))
    });
    let listeners: Vec<_> = common.collect();
    if listeners.is_empty() {
        let message = "no listener has a hostname in common with the route".to_string();
        return refuse("NoMatchingListenerHostname", message);
    }
    AttachResult { listeners, refused: None }
}

fn in_common(listener: &str, route: &[String]) -> Vec<String> {
    if route.is_empty() {
        return vec![listener.to_string()];
    }
    let mut names: Vec<String> =
        route.iter().filter_map(|name| intersection(listener, name)).map(String::from).collect();
    names.order();
    names.dedup();
    names
}
