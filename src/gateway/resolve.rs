//! Resolves a route's references: services and their ports, in its own namespace or where a ReferenceGrant permits it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::{Service, ServicePort};

use super::filters::{Filter, MirrorFraction};
use super::grants::ReferenceGrants;
use super::problem::Cause;
use super::resources::ObjectRef;
use super::route::{self, Limits};
use object::{Key, SharedObject};
use reverse_proxy::options::{MAX_TIMEOUT, Options, Protocol};
use reverse_proxy::pools::Backend;

/// The `appProtocol` of a service port that speaks HTTP/2 without TLS.
const HTTP2: &str = "kubernetes.io/h2c";
/// The `appProtocol` for WebSocket over TLS, which is not supported: the API does not say which certificates to trust.
const SECURE_WEBSOCKET: &str = "kubernetes.io/wss";

/// Looks up services.
pub(super) type Services<'a> = &'a dyn Fn(&Key) -> Option<SharedObject<Service>>;

/// A rule with resolved references.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) route: Key,
    pub(super) filters: Vec<Filter<Option<Target>>>,
    pub(super) choices: Vec<WeightedBackend>,
    /// Number of requests so far.
    request_count: AtomicU32,
}

/// One backend of a rule.
#[derive(Debug)]
pub(super) struct WeightedBackend {
    weight: u32,
    /// `None` if the reference could not be resolved; its requests get status 500.
    pub(super) target: Option<Target>,
    pub(super) options: Arc<Options>,
    pub(super) filters: Vec<Filter<Option<Target>>>,
}

/// The port of a service, and its protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) backend: Backend,
    pub(super) protocol: Protocol,
}

impl Rule {
    /// Returns the number of the next request.
    pub(super) fn next_request(&self) -> u32 {
        self.request_count.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the backend for a request by its number, each as often as its weight says; `None` if no backend has a
    /// weight.
    pub(super) fn choose(&self, request_number: u32) -> Option<&WeightedBackend> {
        let total: u64 = self.choices.iter().map(|choice| u64::from(choice.weight)).sum();
        let mut point = point(request_number, FIRST, total);
        self.choices.iter().find(|choice| {
            let weight = u64::from(choice.weight);
            let is_it = point < weight;
            point = point.saturating_sub(weight);
            is_it
        })
    }
}

impl MirrorFraction {
    /// Returns whether a request, by its number, is to be mirrored.
    pub(super) fn selects(self, request_number: u32) -> bool {
        point(request_number, SECOND, self.denominator.into()) < u64::from(self.numerator)
    }
}

/// The two axes of the sequence R2 (Roberts, 2018), as parts of 2^32, so that a request's backend and whether it is
/// mirrored are independent.
const FIRST: u32 = 0xc13f_a9a9;
const SECOND: u32 = 0x91e1_0da5;

/// Spreads consecutive numbers evenly over `0..total`, so that any run of requests has about the requested proportions.
fn point(request_number: u32, axis: u32, total: u64) -> u64 {
    (u64::from(request_number.wrapping_mul(axis)) * total) >> 32
}

/// Resolves the rules of a route; the cause is the first reference that could not be resolved. Adds the services to
/// `named`.
pub(super) fn resolve(
    key: &Key,
    rules: &[route::Rule],
    grants: &ReferenceGrants,
    services: Services<'_>,
    named: &mut HashSet<Key>,
) -> (Vec<Arc<Rule>>, Option<Cause>) {
    let mut first = None;
    let mut target = |reference: &ObjectRef| match resolve_one(key, reference, grants, services, named) {
        Ok(target) => Some(target),
        Err(cause) => {
            first.get_or_insert(cause);
            None
        }
    };
    let rules = rules.iter().map(|rule| {
        let choices = rule.backends.iter().map(|backend| {
            let found = target(&backend.to);
            let protocol = found.as_ref().map(|found| found.protocol).unwrap_or_default();
            WeightedBackend {
                weight: backend.weight,
                options: Arc::new(options(protocol, rule.timeouts)),
                filters: backend.filters.iter().map(|filter| filter.map(&mut target)).collect(),
                target: found,
            }
        });
        let choices = choices.collect();
        let filters = rule.filters.iter().map(|filter| filter.map(&mut target)).collect();
        Arc::new(Rule { route: key.clone(), filters, choices, request_count: AtomicU32::new(0) })
    });
    (rules.collect(), first)
}

/// Converts a rule's timeouts. A zero timeout means unlimited; if the rule sets any, they replace the default limit on
/// an endpoint's silence.
fn options(protocol: Protocol, limits: Limits) -> Options {
    let mut options = Options { protocol, ..Options::default() };
    if limits != Limits::default() {
        (options.read_timeout, options.send_timeout) = (MAX_TIMEOUT, options.send_timeout);
        options.request_timeout = limits.request.filter(|limit| !limit.is_zero());
        options.backend_timeout = limits.backend.filter(|limit| !limit.is_zero());
    }
    options
}

fn resolve_one(
    route: &Key,
    reference: &ObjectRef,
    grants: &ReferenceGrants,
    services: Services<'_>,
    named: &mut HashSet<Key>,
) -> Result<Target, Cause> {
    let key = Key::new(reference.namespace_from(&route.namespace), reference.name.as_str());
    if !reference.is_core("Service") {
        let kind = reference.kind.as_deref().unwrap_or("Service");
        return Err(Cause::new("InvalidKind", format!("{kind} \"{key}\" is not a Service")));
    }
    if !grants.allow(("HTTPRoute", &route.namespace), ("Service", &key.namespace, &key.name)) {
        let message = format!(
            "no ReferenceGrant allows HTTPRoutes of namespace {} to refer to service \"{key}\"",
            route.namespace
        );
        return Err(Cause::new("RefNotPermitted", message));
    }
    named.insert(key.clone());
    let not_found = |message: String| Cause::new("BackendNotFound", message);
    let service = services(&key).ok_or_else(|| not_found(format!("service \"{key}\" not found")))?;
    let spec = service.spec.as_ref();
    if spec.and_then(|spec| spec.type_.as_deref()) == Some("ExternalName") {
        let message = format!("service \"{key}\" has type ExternalName, which is not supported");
        return Err(Cause::new("UnsupportedProtocol", message));
    }
    let requested =
        reference.port.ok_or_else(|| not_found(format!("the reference to service \"{key}\" has no port")))?;
    let is_it = |port: &&ServicePort| {
        port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP") && i64::from(port.port) == requested
    };
    let port = spec.and_then(|spec| spec.ports.as_ref()).into_iter().flatten().find(is_it);
    let port = port.ok_or_else(|| not_found(format!("service \"{key}\" has no TCP port {requested}")))?;
    let protocol = match port.app_protocol.as_deref() {
        Some(HTTP2) => Protocol::Grpc,
        Some(SECURE_WEBSOCKET) => {
            let message = format!("service \"{key}\" uses {SECURE_WEBSOCKET}, which is not supported");
            return Err(Cause::new("UnsupportedProtocol", message));
        }
        _ => Protocol::Http,
    };
    let backend = Backend { service: key, port: port.name.clone().unwrap_or_default() };
    Ok(Target { backend, protocol })
}
