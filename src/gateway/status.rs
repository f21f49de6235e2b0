//! The status of GatewayClasses, Gateways and HTTPRoutes.
//!
//! Pure except for [`write()`]: computes the next status from the current one and the results. Entries of other
//! controllers are preserved.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Map, Value, json};

use super::listener::{GatewayView, ListenerAddress, ListenerView, Scheme};
use super::problem::Cause;
use super::resources::{GROUP, ParentRef};
use api::{Api, ApiError, Part, WriteOptions};
use object::well_known::controller::PODIUM_GATEWAY;
use object::{Kind, Object, conditions};
use reconcile::ignore_not_found;

/// Supported features in GatewayClasses, by the API's names.
const FEATURES: [&str; 31] = [
    "Gateway",
    "GatewayAddressEmpty",
    "GatewayHTTPListenerIsolation",
    "GatewayHTTPSListenerDetectMisdirectedRequests",
    "GatewayPort8080",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendRequestHeaderModification",
    "HTTPRouteBackendRequestRedirect",
    "HTTPRouteBackendTimeout",
    "HTTPRouteBackendURLRewrite",
    "HTTPRouteDestinationPortMatching",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteNamedRouteRule",
    "HTTPRouteParentRefPort",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestMultipleMirrors",
    "HTTPRouteRequestPercentageMirror",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteSchemeRedirect",
    "ReferenceGrant",
];

/// The result for each port: the actual port, or the reason why it is not served.
pub(super) type Ports = HashMap<ListenerAddress, Result<ServedPort, String>>;

/// A port that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServedPort {
    pub(super) port: u16,
    /// The reason why the port differs from the requested one; `None` if it is the same.
    pub(super) moved: Option<String>,
}

/// The result for one of a route's parents that this controller serves.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ParentOutcome {
    pub(super) parent: ParentRef,
    /// The reason why it is not accepted.
    pub(super) refused: Option<Cause>,
    /// The first reference that could not be resolved.
    pub(super) unresolved: Option<Cause>,
}

/// The time and generation of a condition.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConditionContext<'a> {
    pub(super) now: &'a Time,
    pub(super) generation: i64,
}

/// Writes a status unless it is unchanged.
pub(super) fn write(api: &Api, kind: Kind, object: &Object, make: impl Fn(&Map<String, Value>) -> Value) {
    let status = |object: &Object| {
        let status = object.custom().and_then(|custom| custom.fields.get("status"));
        status.and_then(Value::as_object).cloned().unwrap_or_default()
    };
    let before = status(object);
    if make(&before) == Value::Object(before) {
        return;
    }
    let key = object.key();
    let options = WriteOptions::default();
    let written = api.change(kind, &key, Part::Status, &options, |current| {
        let mut next = current.clone();
        let made = make(&status(current));
        if let Some(custom) = next.custom_mut() {
            custom.fields.insert("status".into(), made);
        }
        Ok::<_, ApiError>(next)
    });
    if let Err(error) = ignore_not_found(written) {
        // The next change of any object tries again.
        tracing::warn!("cannot write the status of {kind} {key}: {error}");
    }
}

/// Returns the previous conditions, in which the drafts replace those of the same types.
fn conditions(before: Option<&Value>, drafts: Vec<ConditionDraft>, at: ConditionContext<'_>) -> Value {
    let before = before.and_then(Value::as_array).into_iter().flatten();
    let mut all: Vec<Condition> =
        before.filter_map(|condition| base::json::from_value(condition.clone()).ok()).collect();
    for ConditionDraft { type_, holds, cause: Cause { reason, message } } in drafts {
        let condition = Condition {
            type_: type_.into(),
            status: conditions::ConditionStatus::from(holds).into(),
            reason: reason.into(),
            message,
            observed_generation: Some(at.generation),
            last_transition_time: at.now.clone(),
        };
        conditions::set(&mut all, condition);
    }
    json!(all)
}

/// A condition to write.
struct ConditionDraft {
    type_: &'static str,
    holds: bool,
    cause: Cause,
}

/// Returns a condition: true with its type as the reason, or false with the cause.
fn draft(type_: &'static str, cause: Option<&Cause>) -> ConditionDraft {
    match cause {
        None => ConditionDraft { type_, holds: true, cause: Cause::new(type_, "") },
        Some(cause) => ConditionDraft { type_, holds: false, cause: cause.clone() },
    }
}

/// Returns the status of a GatewayClass.
pub(super) fn of_class(
    before: &Map<String, Value>,
    refused: Option<&Cause>,
    at: ConditionContext<'_>,
) -> Value {
    let mut status = before.clone();
    let drafts = vec![draft("Accepted", refused)];
    status.insert("conditions".into(), conditions(before.get("conditions"), drafts, at));
    let features: Vec<Value> = FEATURES.iter().map(|name| json!({"name": name})).collect();
    status.insert("supportedFeatures".into(), features.into());
    status.into()
}

/// Returns the status of a Gateway; `attached` has the number of routes for each listener.
pub(super) fn of_gateway(
    before: &Map<String, Value>,
    gateway: &GatewayView,
    ports: &Ports,
    attached: &[usize],
    at: ConditionContext<'_>,
) -> Value {
    let outcomes: Vec<Outcome> =
        gateway.listeners.iter().map(|listener| Outcome::of(gateway, listener, ports)).collect();
    let mut status = before.clone();
    let shown = |ip: &IpAddr| if ip.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { *ip };
    let addresses = gateway.addresses.iter().filter(|_| gateway.refused.is_none());
    let addresses: Vec<Value> =
        addresses.map(|ip| json!({"type": "IPAddress", "value": shown(ip).to_string()})).collect();
    status.insert("addresses".into(), addresses.into());
    let all = gateway_conditions(gateway, &outcomes);
    status.insert("conditions".into(), conditions(before.get("conditions"), all, at));
    let there = before.get("listeners").and_then(Value::as_array).cloned().unwrap_or_default();
    let listeners = gateway.listeners.iter().zip(outcomes).enumerate().map(|(n, (listener, outcome))| {
        let old = there.iter().find(|old| old["name"] == listener.name);
        let kinds =
            if listener.takes_routes { json!([{"group": GROUP, "kind": "HTTPRoute"}]) } else { json!([]) };
        json!({
            "name": listener.name,
            "supportedKinds": kinds,
            "attachedRoutes": attached.get(n).copied().unwrap_or_default(),
            "conditions": conditions(old.map(|old| &old["conditions"]), outcome.conditions(listener), at),
        })
    });
    status.insert("listeners".into(), listeners.collect());
    status.into()
}

/// Returns the status of a Gateway that is no longer served here, because its class was deleted or it has another one.
pub(super) fn of_released(before: &Map<String, Value>, at: ConditionContext<'_>) -> Value {
    let mut status = before.clone();
    status.insert("addresses".into(), json!([]));
    status.insert("listeners".into(), json!([]));
    let cause = Cause::new("Pending", format!("no longer served by {PODIUM_GATEWAY}"));
    let all = ["Accepted", "Programmed"].map(|type_| draft(type_, Some(&cause)));
    status.insert("conditions".into(), conditions(before.get("conditions"), all.into(), at));
    status.into()
}

fn gateway_conditions(gateway: &GatewayView, outcomes: &[Outcome]) -> Vec<ConditionDraft> {
    let broken: Vec<&str> = (gateway.listeners.iter().zip(outcomes))
        .filter(|(_, outcome)| outcome.refused.is_some())
        .map(|(listener, _)| listener.name.as_str())
        .collect();
    let accepted = match &gateway.refused {
        None if !broken.is_empty() => {
            let message = format!("listeners not served: {}", broken.join(", "));
            // It holds if some of the listeners are served.
            let holds = broken.len() < outcomes.len();
            ConditionDraft { type_: "Accepted", holds, cause: Cause::new("ListenersNotValid", message) }
        }
        refused => draft("Accepted", refused.as_ref()),
    };
    let programmed = match (&gateway.refused, &gateway.unusable) {
        (Some(cause), _) => Some(Cause::new("Invalid", cause.message.clone())),
        (None, Some(cause)) => Some(cause.clone()),
        (None, None) if outcomes.iter().any(|outcome| outcome.urls.is_ok()) => None,
        (None, None) => Some(Cause::new("Invalid", "no listener is served")),
    };
    vec![accepted, draft("Programmed", programmed.as_ref())]
}

/// The result for a listener.
struct Outcome {
    refused: Option<Cause>,
    /// The URLs that it is served at, or the reason why it is not served.
    urls: Result<String, Cause>,
}

impl Outcome {
    fn of(gateway: &GatewayView, listener: &ListenerView, ports: &Ports) -> Self {
        let refused = listener.refused.as_ref().or(listener.conflict.as_ref()).cloned();
        let invalid = |message: &str| Err(Cause::new("Invalid", message));
        if let Some(cause) = &gateway.refused {
            return Self { refused, urls: invalid(&cause.message) };
        }
        if let Some(cause) = refused {
            return Self { urls: invalid(&cause.message), refused: Some(cause) };
        }
        if !listener.is_valid() {
            let message =
                listener.unresolved.as_ref().map_or("the listener accepts no routes", |cause| &cause.message);
            return Self { refused: None, urls: invalid(message) };
        }
        let mut places = Vec::new();
        for ip in &gateway.addresses {
            match ports.get(&(*ip, listener.port)) {
                Some(Ok(served)) => places.push(format_url(*ip, listener.scheme, served)),
                Some(Err(why)) => {
                    let cause = Cause::new("PortUnavailable", why.clone());
                    return Self { refused: Some(cause), urls: invalid(why) };
                }
                None => return Self { refused: None, urls: Err(Cause::new("Pending", "not served yet")) },
            }
        }
        if places.is_empty() {
            return Self { refused: None, urls: invalid("the Gateway has no address") };
        }
        Self { refused: None, urls: Ok(places.join("; ")) }
    }

    fn conditions(&self, listener: &ListenerView) -> Vec<ConditionDraft> {
        let conflict = listener.conflict.clone().unwrap_or_else(|| Cause::new("NoConflicts", ""));
        let programmed = match &self.urls {
            Ok(places) => Cause::new("Programmed", format!("served at {places}")),
            Err(cause) => cause.clone(),
        };
        vec![
            draft("Accepted", self.refused.as_ref()),
            ConditionDraft { type_: "Conflicted", holds: listener.conflict.is_some(), cause: conflict },
            draft("ResolvedRefs", listener.unresolved.as_ref()),
            ConditionDraft { type_: "Programmed", holds: self.urls.is_ok(), cause: programmed },
        ]
    }
}

fn format_url(ip: IpAddr, scheme: Scheme, served: &ServedPort) -> String {
    let scheme = match scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    };
    let at = std::net::SocketAddr::new(ip, served.port);
    match &served.moved {
        None => format!("{scheme}://{at}"),
        Some(why) => format!("{scheme}://{at} ({why})"),
    }
}

/// Returns the status of an HTTPRoute: this controller's parents are replaced, those of others stay. Without any of
/// this controller's parents, before or now, nothing changes.
pub(super) fn of_route(
    before: &Map<String, Value>,
    parents: &[ParentOutcome],
    at: ConditionContext<'_>,
) -> Value {
    let there = before.get("parents").and_then(Value::as_array).cloned().unwrap_or_default();
    let (ours, others): (Vec<Value>, Vec<Value>) =
        there.into_iter().partition(|parent| parent["controllerName"] == PODIUM_GATEWAY);
    if ours.is_empty() && parents.is_empty() {
        return before.clone().into();
    }
    let made = parents.iter().map(|outcome| {
        let mut parent = outcome.parent.clone();
        // Apply the CRD's defaults, so that the stored status equals the one written here.
        parent.group.get_or_insert_with(|| GROUP.into());
        parent.kind.get_or_insert_with(|| "Gateway".into());
        let parent = json!(parent);
        let old = ours.iter().find(|old| old["parentRef"] == parent);
        let drafts = vec![
            draft("Accepted", outcome.refused.as_ref()),
            draft("ResolvedRefs", outcome.unresolved.as_ref()),
        ];
        json!({
            "parentRef": parent,
            "controllerName": PODIUM_GATEWAY,
            "conditions": conditions(old.map(|old| &old["conditions"]), drafts, at),
        })
    });
    let parents: Vec<Value> = others.into_iter().chain(made).collect();
    let mut status = before.clone();
    status.insert("parents".into(), parents.into());
    status.into()
}

/// Returns whether a route's status has an entry of this controller.
pub(super) fn names_us(object: &Object) -> bool {
    let status = object.custom().and_then(|custom| custom.fields.get("status"));
    let parents = status.and_then(|status| status["parents"].as_array());
    parents.into_iter().flatten().any(|parent| parent["controllerName"] == PODIUM_GATEWAY)
}
