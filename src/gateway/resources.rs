//! The fields of the Gateway API's resources that this controller reads. The resources are custom, and users install
//! their CRDs; other fields are ignored, and a value of the wrong type is an error of that object alone.
//!
//! The crate `gateway-api` does not fit: its latest version (0.22) is built on kube 4 and k8s-openapi 0.28, and would
//! bring both a second time, beside our kube 5 and k8s-openapi 0.29.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::{Deserialize, Serialize};

/// The resources' API group.
pub(super) const GROUP: &str = "gateway.networking.k8s.io";

/// A reference to an object; the API's reference types have subsets of these fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ObjectRef {
    pub(super) group: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) port: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct GatewayClassSpec {
    pub(super) controller_name: String,
    pub(super) parameters_ref: Option<ObjectRef>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct GatewaySpec {
    pub(super) gateway_class_name: String,
    pub(super) listeners: Vec<Listener>,
    pub(super) addresses: Vec<Address>,
    pub(super) infrastructure: Option<Infrastructure>,
    pub(super) tls: Option<GatewayTls>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Address {
    #[serde(rename = "type")]
    pub(super) type_: Option<String>,
    pub(super) value: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Infrastructure {
    pub(super) parameters_ref: Option<ObjectRef>,
}

/// TLS settings of a whole Gateway: client certificates, and the certificate for endpoints.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct GatewayTls {
    pub(super) frontend: Option<serde_json::Value>,
    pub(super) backend: Option<serde_json::Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Listener {
    pub(super) name: String,
    pub(super) hostname: Option<String>,
    pub(super) port: i64,
    pub(super) protocol: String,
    pub(super) tls: Option<ListenerTls>,
    pub(super) allowed_routes: Option<AllowedRoutes>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListenerTls {
    pub(super) mode: Option<String>,
    pub(super) certificate_refs: Vec<ObjectRef>,
    pub(super) frontend_validation: Option<serde_json::Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AllowedRoutes {
    pub(super) namespaces: Option<RouteNamespaces>,
    pub(super) kinds: Vec<RouteKind>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RouteNamespaces {
    pub(super) from: Option<String>,
    pub(super) selector: Option<LabelSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RouteKind {
    pub(super) group: Option<String>,
    pub(super) kind: String,
}

/// The part of an HTTPRoute's spec that determines its parents. The rules are read separately, so that errors in them
/// can be reported in the status of the parents.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RouteHead {
    pub(super) parent_refs: Vec<ParentRef>,
    pub(super) hostnames: Vec<String>,
}

/// A reference to a route's parent, which is also written into the status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ParentRef {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) section_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) port: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RouteRules {
    pub(super) rules: Vec<RouteRule>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RouteRule {
    pub(super) matches: Vec<RouteMatch>,
    pub(super) filters: Vec<RouteFilter>,
    pub(super) backend_refs: Vec<BackendRef>,
    pub(super) timeouts: Option<Timeouts>,
    /// A field of the API's experimental channel; not supported.
    pub(super) retry: Option<serde_json::Value>,
    /// A field of the API's experimental channel; not supported.
    pub(super) session_persistence: Option<serde_json::Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Timeouts {
    pub(super) request: Option<String>,
    pub(super) backend_request: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RouteMatch {
    pub(super) path: Option<ValueMatch>,
    pub(super) headers: Vec<ValueMatch>,
    pub(super) query_params: Vec<ValueMatch>,
    pub(super) method: Option<String>,
}

/// A match for a path, or for a header or query parameter by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ValueMatch {
    #[serde(rename = "type")]
    pub(super) type_: Option<String>,
    pub(super) name: String,
    pub(super) value: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct BackendRef {
    #[serde(flatten)]
    pub(super) to: ObjectRef,
    pub(super) weight: Option<i64>,
    pub(super) filters: Vec<RouteFilter>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RouteFilter {
    #[serde(rename = "type")]
    pub(super) type_: String,
    pub(super) request_header_modifier: Option<HeaderModifier>,
    pub(super) response_header_modifier: Option<HeaderModifier>,
    pub(super) request_redirect: Option<RequestRedirect>,
    pub(super) url_rewrite: Option<UrlRewrite>,
    pub(super) request_mirror: Option<RequestMirror>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct HeaderModifier {
    pub(super) set: Vec<HeaderValue>,
    pub(super) add: Vec<HeaderValue>,
    pub(super) remove: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct HeaderValue {
    pub(super) name: String,
    pub(super) value: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RequestRedirect {
    pub(super) scheme: Option<String>,
    pub(super) hostname: Option<String>,
    pub(super) path: Option<PathModifier>,
    pub(super) port: Option<i64>,
    pub(super) status_code: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct UrlRewrite {
    pub(super) hostname: Option<String>,
    pub(super) path: Option<PathModifier>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PathModifier {
    #[serde(rename = "type")]
    pub(super) type_: String,
    pub(super) replace_full_path: Option<String>,
    pub(super) replace_prefix_match: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RequestMirror {
    pub(super) backend_ref: ObjectRef,
    pub(super) percent: Option<i64>,
    pub(super) fraction: Option<Fraction>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Fraction {
    pub(super) numerator: i64,
    pub(super) denominator: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReferenceGrantSpec {
    pub(super) from: Vec<ReferenceGrantFrom>,
    pub(super) to: Vec<ReferenceGrantTo>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReferenceGrantFrom {
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) namespace: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReferenceGrantTo {
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) name: Option<String>,
}

/// The labels of a namespace.
pub(super) type Labels = BTreeMap<String, String>;
