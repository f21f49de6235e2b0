//! What became of GatewayClasses, Gateways and HTTPRoutes, as their status says it.
//!
//! Pure but for [`write()`]: a status and what is known now in, the next status out. What others have written there stays.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Map, Value, json};

use super::CONTROLLER;
use super::listener::{GatewayView, ListenerView, PortAt, Scheme};
use super::problem::Cause;
use super::resources::{GROUP, ParentRef};
use api::{Api, ApiError, Part, WriteOptions};
use object::{Kind, Object, conditions};
use reconcile::ignore_not_found;

/// What GatewayClasses say can be done, by the names that the API has for it.
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

/// Where a port is served, or why it is not.
pub(super) type Ports = HashMap<PortAt, Result<Served, String>>;

/// Where a port is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Served {
    pub(super) port: u16,
    /// Why not where it was asked for.
    pub(super) moved: Option<String>,
}

/// One of a route's parents that is served here.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ParentOutcome {
    pub(super) parent: ParentRef,
    /// Why it is not accepted.
    pub(super) refused: Option<Cause>,
    /// Which reference cannot be followed.
    pub(super) unresolved: Option<Cause>,
}

/// When and of what something is said.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    pub(super) now: &'a Time,
    pub(super) generation: i64,
}

/// Writes a status, unless it is so already.
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
        // The next change of anything tries again.
        tracing::warn!("the status of {kind} {key} was not written: {error}");
    }
}

/// The conditions that were there, with these in the place of those of their types.
fn conditions(before: Option<&Value>, said: Vec<Said>, at: At<'_>) -> Value {
    let before = before.and_then(Value::as_array).into_iter().flatten();
    let mut all: Vec<Condition> =
        before.filter_map(|condition| serde_json::from_value(condition.clone()).ok()).collect();
    for Said { type_, holds, cause: Cause { reason, message } } in said {
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

/// One condition.
struct Said {
    type_: &'static str,
    holds: bool,
    cause: Cause,
}

/// That it holds, or the cause why it does not.
fn said(type_: &'static str, good: &'static str, cause: Option<&Cause>) -> Said {
    match cause {
        None => Said { type_, holds: true, cause: Cause::new(good, "") },
        Some(cause) => Said { type_, holds: false, cause: cause.clone() },
    }
}

/// That of a GatewayClass.
pub(super) fn of_class(before: &Map<String, Value>, refused: Option<&Cause>, at: At<'_>) -> Value {
    let mut status = before.clone();
    let said = vec![said("Accepted", "Accepted", refused)];
    status.insert("conditions".into(), conditions(before.get("conditions"), said, at));
    let features: Vec<Value> = FEATURES.iter().map(|name| json!({"name": name})).collect();
    status.insert("supportedFeatures".into(), features.into());
    status.into()
}

/// That of a Gateway; `attached` counts routes by listener.
pub(super) fn of_gateway(
    before: &Map<String, Value>,
    gateway: &GatewayView,
    ports: &Ports,
    attached: &[usize],
    at: At<'_>,
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

/// That of a Gateway which has been served here and is no longer: its class is gone, or it has another.
pub(super) fn of_released(before: &Map<String, Value>, at: At<'_>) -> Value {
    let mut status = before.clone();
    status.insert("addresses".into(), json!([]));
    status.insert("listeners".into(), json!([]));
    let cause = Cause::new("Pending", format!("no longer served by {CONTROLLER}"));
    let all = ["Accepted", "Programmed"].map(|type_| said(type_, type_, Some(&cause)));
    status.insert("conditions".into(), conditions(before.get("conditions"), all.into(), at));
    status.into()
}

fn gateway_conditions(gateway: &GatewayView, outcomes: &[Outcome]) -> Vec<Said> {
    let broken: Vec<&str> = (gateway.listeners.iter().zip(outcomes))
        .filter(|(_, outcome)| outcome.refused.is_some())
        .map(|(listener, _)| listener.name.as_str())
        .collect();
    let not_valid =
        || Cause::new("ListenersNotValid", format!("listeners not served: {}", broken.join(", ")));
    let accepted = match &gateway.refused {
        Some(cause) => said("Accepted", "Accepted", Some(cause)),
        None if broken.is_empty() => said("Accepted", "Accepted", None),
        // Some of it is served.
        None => {
            let holds = broken.len() < outcomes.len();
            Said { type_: "Accepted", holds, cause: not_valid() }
        }
    };
    let programmed = match (&gateway.refused, &gateway.unusable) {
        (Some(cause), _) => Some(Cause::new("Invalid", cause.message.clone())),
        (None, Some(cause)) => Some(cause.clone()),
        (None, None) if outcomes.iter().any(|outcome| outcome.places.is_ok()) => None,
        (None, None) => Some(Cause::new("Invalid", "no listener is served")),
    };
    vec![accepted, said("Programmed", "Programmed", programmed.as_ref())]
}

/// What became of a listener.
struct Outcome {
    refused: Option<Cause>,
    /// Where it is served, or why it is not.
    places: Result<String, Cause>,
}

impl Outcome {
    fn of(gateway: &GatewayView, listener: &ListenerView, ports: &Ports) -> Self {
        let refused = listener.refused.as_ref().or(listener.conflict.as_ref()).cloned();
        let invalid = |message: &str| Err(Cause::new("Invalid", message));
        if let Some(cause) = &gateway.refused {
            return Self { refused, places: invalid(&cause.message) };
        }
        if let Some(cause) = refused {
            return Self { places: invalid(&cause.message), refused: Some(cause) };
        }
        if !listener.is_valid() {
            let why = listener.unresolved.as_ref().map_or("it takes no routes", |cause| &cause.message);
            return Self { refused: None, places: invalid(why) };
        }
        let mut places = Vec::new();
        for ip in &gateway.addresses {
            match ports.get(&(*ip, listener.port)) {
                Some(Ok(served)) => places.push(place(*ip, listener.scheme, served)),
                Some(Err(why)) => {
                    let cause = Cause::new("PortUnavailable", why.clone());
                    return Self { refused: Some(cause), places: invalid(why) };
                }
                None => return Self { refused: None, places: Err(Cause::new("Pending", "not served yet")) },
            }
        }
        if places.is_empty() {
            return Self { refused: None, places: invalid("the Gateway has no address") };
        }
        Self { refused: None, places: Ok(places.join("; ")) }
    }

    fn conditions(&self, listener: &ListenerView) -> Vec<Said> {
        let conflicted = match &listener.conflict {
            Some(cause) => Said { type_: "Conflicted", holds: true, cause: cause.clone() },
            None => Said { type_: "Conflicted", holds: false, cause: Cause::new("NoConflicts", "") },
        };
        let programmed = match &self.places {
            Ok(places) => {
                let cause = Cause::new("Programmed", format!("served at {places}"));
                Said { type_: "Programmed", holds: true, cause }
            }
            Err(cause) => Said { type_: "Programmed", holds: false, cause: cause.clone() },
        };
        vec![
            said("Accepted", "Accepted", self.refused.as_ref()),
            conflicted,
            said("ResolvedRefs", "ResolvedRefs", listener.unresolved.as_ref()),
            programmed,
        ]
    }
}

fn place(ip: IpAddr, scheme: Scheme, served: &Served) -> String {
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

/// That of an HTTPRoute: our parents anew, those of others as they are. None of ours, and none before, changes nothing.
pub(super) fn of_route(before: &Map<String, Value>, parents: &[ParentOutcome], at: At<'_>) -> Value {
    let there = before.get("parents").and_then(Value::as_array).cloned().unwrap_or_default();
    let (ours, others): (Vec<Value>, Vec<Value>) =
        there.into_iter().partition(|parent| parent["controllerName"] == CONTROLLER);
    if ours.is_empty() && parents.is_empty() {
        return before.clone().into();
    }
    let made = parents.iter().map(|outcome| {
        let mut parent = outcome.parent.clone();
        // What a definition fills in, so that what is read is what was written.
        parent.group.get_or_insert_with(|| GROUP.into());
        parent.kind.get_or_insert_with(|| "Gateway".into());
        let parent = json!(parent);
        let old = ours.iter().find(|old| old["parentRef"] == parent);
        let said = vec![
            said("Accepted", "Accepted", outcome.refused.as_ref()),
            said("ResolvedRefs", "ResolvedRefs", outcome.unresolved.as_ref()),
        ];
        json!({
            "parentRef": parent,
            "controllerName": CONTROLLER,
            "conditions": conditions(old.map(|old| &old["conditions"]), said, at),
        })
    });
    let parents: Vec<Value> = others.into_iter().chain(made).collect();
    let mut status = before.clone();
    status.insert("parents".into(), parents.into());
    status.into()
}

/// Whether a route's status has something of ours.
pub(super) fn names_us(object: &Object) -> bool {
    let status = object.custom().and_then(|custom| custom.fields.get("status"));
    let parents = status.and_then(|status| status["parents"].as_array());
    parents.into_iter().flatten().any(|parent| parent["controllerName"] == CONTROLLER)
}
