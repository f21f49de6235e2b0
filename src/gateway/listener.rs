//! The listeners of Gateways: whether they can be served, and the routes that they allow.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Map, Value};

use super::grants::ReferenceGrants;
use super::hosts::is_hostname;
use super::problem::Cause;
use super::resources::{GROUP, GatewaySpec, Labels, Listener, RouteKind};
use object::selector::Selector;
use object::{Key, Object, port_number};

/// Maximum number of listeners of one Gateway, as in the API's CRD; further ones are ignored.
const MAX_LISTENERS: usize = 64;
/// Maximum number of certificates of one listener.
const MAX_CERTIFICATES: usize = 64;

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

/// An address of a Gateway with a listener's port.
pub(super) type ListenerAddress = (IpAddr, u16);

/// A Gateway with the result of its validation.
#[derive(Clone, Debug)]
pub(super) struct GatewayView {
    pub(super) key: Key,
    pub(super) generation: i64,
    /// The addresses that it is served at.
    pub(super) addresses: Vec<IpAddr>,
    /// The reason why the whole Gateway is not served.
    pub(super) refused: Option<Cause>,
    /// The reason why some of its addresses cannot be used.
    pub(super) unusable: Option<Cause>,
    pub(super) listeners: Vec<ListenerView>,
}

/// A listener with the result of its validation.
#[derive(Clone, Debug)]
pub(super) struct ListenerView {
    pub(super) name: String,
    /// In lower case; the empty hostname matches any.
    pub(super) hostname: String,
    pub(super) port: u16,
    pub(super) scheme: Scheme,
    /// The reason why the listener is not accepted.
    pub(super) refused: Option<Cause>,
    /// The conflict with another listener.
    pub(super) conflict: Option<Cause>,
    /// The first reference that could not be resolved.
    pub(super) unresolved: Option<Cause>,
    /// HTTPRoutes may be attached.
    pub(super) takes_routes: bool,
    namespaces: Namespaces,
    /// The Secrets with valid certificates.
    pub(super) secrets: Vec<Key>,
}

/// The namespaces from which a listener accepts routes.
#[derive(Clone, Debug)]
enum Namespaces {
    All,
    Same,
    Selected(Selector),
}

impl ListenerView {
    /// Returns whether the listener can be served, provided that its port can be bound.
    pub(super) fn is_valid(&self) -> bool {
        let has_certificate = self.scheme == Scheme::Http || !self.secrets.is_empty();
        self.refused.is_none() && self.conflict.is_none() && has_certificate && self.takes_routes
    }

    /// Returns whether routes of a namespace may be attached.
    pub(super) fn takes_from(&self, gateway: &Key, namespace: &str, labels: Option<&Labels>) -> bool {
        match &self.namespaces {
            Namespaces::All => true,
            Namespaces::Same => gateway.namespace == namespace,
            Namespaces::Selected(selector) => labels.is_some_and(|labels| selector.matches(Some(labels))),
        }
    }
}

/// The result of checking a Secret's certificate; the error says what is wrong with it.
pub(super) type SecretCheck = Result<(), String>;
/// Checks a Secret; `None` if it does not exist.
pub(super) type Checks<'a> = &'a dyn Fn(&Key) -> Option<SecretCheck>;

/// The context of a Gateway's validation.
pub(super) struct GatewayContext<'a> {
    /// The address of Gateways that request no address.
    pub(super) address: IpAddr,
    pub(super) grants: &'a ReferenceGrants,
    pub(super) secret: Checks<'a>,
}

/// Reads a Gateway's spec; the error says why it is invalid.
pub(super) fn read_spec(object: &Object) -> Result<GatewaySpec, String> {
    let spec = object.custom().and_then(|custom| custom.fields.get("spec")).cloned();
    let spec = spec.unwrap_or_else(|| Value::Object(Map::new()));
    base::json::from_value(spec).map_err(|error| error.to_string())
}

/// Validates a Gateway on its own, without regard to others; adds the Secrets that it refers to to `named`.
pub(super) fn view(
    object: &Object,
    spec: &GatewaySpec,
    around: &GatewayContext<'_>,
    named: &mut HashSet<Key>,
) -> GatewayView {
    let key = object.key();
    let (addresses, unsupported, unusable) = addresses(spec, around.address);
    let parameters = spec.infrastructure.as_ref().is_some_and(|it| it.parameters_ref.is_some());
    let refused = parameters
        .then(|| Cause::new("InvalidParameters", "infrastructure.parametersRef is not supported"))
        .or_else(|| {
            let is_set = spec.tls.as_ref().is_some_and(|tls| tls.backend.is_some());
            is_set.then(|| Cause::new("InvalidParameters", "tls.backend is not supported"))
        })
        .or(unsupported);
    // A listener that should require client certificates must not be served without them.
    let needs_client_cert = spec.tls.as_ref().is_some_and(|tls| tls.frontend.is_some());
    let listeners = spec.listeners.iter().take(MAX_LISTENERS);
    let listeners: Vec<ListenerView> =
        listeners.map(|listener| listener_view(&key, listener, needs_client_cert, around, named)).collect();
    GatewayView {
        key,
        generation: object.meta().generation.unwrap_or_default(),
        addresses,
        refused,
        unusable,
        listeners,
    }
}

/// Returns the addresses that a Gateway is served at, and the problems if an address has an unsupported type or is
/// unusable.
fn addresses(spec: &GatewaySpec, default: IpAddr) -> (Vec<IpAddr>, Option<Cause>, Option<Cause>) {
    let (mut all, mut unsupported, mut unusable) = (Vec::new(), None, None);
    for address in &spec.addresses {
        let type_ = address.type_.as_deref().unwrap_or("IPAddress");
        let value = address.value.as_deref().unwrap_or_default();
        if type_ != "IPAddress" {
            let message = format!("addresses of type {type_} are not supported; use IPAddress");
            unsupported = Some(Cause::new("UnsupportedAddress", message));
            continue;
        }
        let ip = if value.is_empty() { Some(default) } else { value.parse().ok() };
        match ip.filter(|ip| *ip == default || is_of_machine(*ip)) {
            Some(ip) if all.contains(&ip) => {}
            Some(ip) => all.push(ip),
            None => {
                let message = format!("address {value} is neither {default} nor ::1 nor in 127.0.0.0/24");
                unusable = Some(Cause::new("AddressNotUsable", message));
            }
        }
    }
    if spec.addresses.is_empty() {
        all.push(default);
    }
    (all, unsupported, unusable)
}

/// Returns whether an address is a loopback address that no pod, service or node has.
fn is_of_machine(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == Ipv4Addr::LOCALHOST.octets()[..3],
        IpAddr::V6(ip) => ip == Ipv6Addr::LOCALHOST,
    }
}

fn listener_view(
    gateway: &Key,
    listener: &Listener,
    needs_client_cert: bool,
    around: &GatewayContext<'_>,
    named: &mut HashSet<Key>,
) -> ListenerView {
    let hostname = listener.hostname.as_deref().unwrap_or_default().to_ascii_lowercase();
    let scheme = if listener.protocol == "HTTPS" { Scheme::Https } else { Scheme::Http };
    let allowed = listener.allowed_routes.as_ref();
    let kinds = allowed.map(|allowed| allowed.kinds.as_slice()).unwrap_or_default();
    let takes_routes = kinds.is_empty() || kinds.iter().any(is_http_route);
    let (namespaces, unknown) = match allowed.and_then(|allowed| allowed.namespaces.as_ref()) {
        None => (Namespaces::Same, None),
        Some(namespaces) => match namespaces.from.as_deref().unwrap_or("Same") {
            "All" => (Namespaces::All, None),
            "Selector" => {
                let selector = namespaces.selector.as_ref();
                (Namespaces::Selected(selector.map_or_else(Selector::nothing, Selector::from_field)), None)
            }
            "Same" => (Namespaces::Same, None),
            // An unknown value of `from` allows no routes.
            other => (Namespaces::Selected(Selector::nothing()), Some(other)),
        },
    };
    let port = port_number(listener.port);
    let tls = listener.tls.as_ref();
    let refused = match (listener.protocol.as_str(), port) {
        ("HTTP" | "HTTPS", None) => Some(Cause::unsupported(format!("invalid port {}", listener.port))),
        ("HTTP" | "HTTPS", _) if !hostname.is_empty() && !is_hostname(&hostname) => {
            Some(Cause::unsupported(format!("invalid hostname \"{hostname}\"")))
        }
        ("HTTP" | "HTTPS", _) if unknown.is_some() => {
            let unknown = unknown.unwrap_or_default();
            Some(Cause::unsupported(format!("routes from {unknown} are not supported")))
        }
        ("HTTP", _) if tls.is_some() => {
            Some(Cause::unsupported("a listener with protocol HTTP cannot have tls"))
        }
        ("HTTPS", _) if needs_client_cert || tls.is_some_and(|tls| tls.frontend_validation.is_some()) => {
            Some(Cause::unsupported("validation of client certificates is not supported"))
        }
        ("HTTPS", _) if tls.and_then(|tls| tls.mode.as_deref()).is_some_and(|mode| mode != "Terminate") => {
            Some(Cause::unsupported("TLS passthrough is not supported; use mode Terminate"))
        }
        ("HTTP" | "HTTPS", _) => None,
        (other, _) => Some(Cause::new("UnsupportedProtocol", format!("protocol {other} is not supported"))),
    };
    let mut view = ListenerView {
        name: listener.name.clone(),
        hostname,
        port: port.unwrap_or_default(),
        scheme,
        refused,
        conflict: None,
        unresolved: None,
        takes_routes,
        namespaces,
        secrets: Vec::new(),
    };
    if scheme == Scheme::Https {
        read_certificates(&mut view, gateway, listener, around, named);
    }
    if let Some(other) = kinds.iter().find(|kind| !is_http_route(kind)) {
        let message = format!("routes of kind {} are not supported; use HTTPRoute", other.kind);
        view.unresolved.get_or_insert(Cause::new("InvalidRouteKinds", message));
    }
    view
}

fn is_http_route(kind: &RouteKind) -> bool {
    kind.group.as_deref().is_none_or(|group| group == GROUP) && kind.kind == "HTTPRoute"
}

fn read_certificates(
    view: &mut ListenerView,
    gateway: &Key,
    listener: &Listener,
    around: &GatewayContext<'_>,
    named: &mut HashSet<Key>,
) {
    let refs = listener.tls.as_ref().map(|tls| tls.certificate_refs.as_slice()).unwrap_or_default();
    if refs.is_empty() {
        view.unresolved = Some(Cause::new("InvalidCertificateRef", "tls.certificateRefs is empty"));
    }
    for reference in refs.iter().take(MAX_CERTIFICATES) {
        let key = Key::new(reference.namespace_from(&gateway.namespace), reference.name.as_str());
        let outcome = if !reference.is_core("Secret") {
            let kind = reference.kind.as_deref().unwrap_or("Secret");
            Err(Cause::new("InvalidCertificateRef", format!("{kind} \"{key}\" is not a Secret")))
        } else if !around.grants.allow(("Gateway", &gateway.namespace), ("Secret", &key.namespace, &key.name))
        {
            let message = format!(
                "no ReferenceGrant allows Gateways of namespace {} to refer to secret \"{key}\"",
                gateway.namespace
            );
            Err(Cause::new("RefNotPermitted", message))
        } else {
            named.insert(key.clone());
            match (around.secret)(&key) {
                None => Err(Cause::new("InvalidCertificateRef", format!("secret \"{key}\" not found"))),
                Some(checked) => checked.map_err(|why| {
                    let message = format!("secret \"{key}\" has no usable certificate: {why}");
                    Cause::new("InvalidCertificateRef", message)
                }),
            }
        };
        match outcome {
            Ok(()) => view.secrets.push(key),
            Err(cause) => drop(view.unresolved.get_or_insert(cause)),
        }
    }
}
