//! metrics.k8s.io: resource usage of nodes and pods in the metrics server's form (POD-12). Read only, never
//! stored.
//!
//! Nodes and pods without a measurement are not listed, as in the metrics server.

use axum::response::Response;
use http::Method;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::Server;
use super::response_format::ResponseFormat;
use super::table;
use super::virtual_objects::VirtualObjects;
use api::usage::{NodeUsage, ResourceUsage};
use api::{ApiError, Selection};
use base::clock::time;
use object::time::go_duration;
use object::{Key, Kind, Object, SharedObject, TypedKind};

/// The API group.
pub(super) const GROUP: &str = "metrics.k8s.io";
/// The version of the group.
pub(super) const VERSION: &str = "v1beta1";

/// The target of a path below the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MetricsTarget {
    /// `Kind::Node` or `Kind::Pod`.
    of: Kind,
    namespace: Option<String>,
    name: Option<String>,
}

impl MetricsTarget {
    /// Parses the path after the version.
    pub(super) fn parse(rest: &[&str]) -> Option<Self> {
        let (of, namespace, name) = match rest {
            ["nodes"] => (Kind::Node, None, None),
            ["nodes", name] => (Kind::Node, None, Some(*name)),
            ["pods"] => (Kind::Pod, None, None),
            ["namespaces", namespace, "pods"] => (Kind::Pod, Some(*namespace), None),
            ["namespaces", namespace, "pods", name] => (Kind::Pod, Some(*namespace), Some(*name)),
            _ => return None,
        };
        Some(Self { of, namespace: namespace.map(Into::into), name: name.map(Into::into) })
    }

    /// Returns the resource.
    pub(super) fn plural(&self) -> &'static str {
        self.of.info().plural
    }

    /// Returns true if it names a collection.
    pub(super) fn is_collection(&self) -> bool {
        self.name.is_none()
    }

    fn kind(&self) -> &'static str {
        if self.of == Kind::Node { "NodeMetrics" } else { "PodMetrics" }
    }
}

/// Answers a request below the group.
pub(super) fn handle(
    server: &Server,
    target: &MetricsTarget,
    method: &Method,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    format.only_reads(method)?;
    let measured = match &target.name {
        Some(name) => vec![one(server, target, name)?],
        None => all(server, target, &format.query.selection(&server.api().kinds(), target.of.into())?),
    };
    let metrics = VirtualObjects {
        kind: target.kind(),
        api_version: format!("{GROUP}/{VERSION}"),
        metadata: json!({}),
        objects: measured,
        is_single: !target.is_collection(),
    };
    metrics.respond(format, |version, include, all| {
        let columns = ["Name", "cpu", "memory", "Window"].map(|name| (name, "string"));
        table::of_rows(version, include, &columns, all.iter().map(|measured| (measured, cells(measured))))
    })
}

fn one(server: &Server, target: &MetricsTarget, name: &str) -> Result<Value, ApiError> {
    let api = server.api();
    let namespace = target.namespace.clone().unwrap_or_default();
    let key = Key::new(namespace.clone(), name);
    let (found, resource, shown) = match target.of {
        Kind::Node => {
            (api.get_as::<Node>(&key).ok().and_then(|n| of_node(server, &n)), "nodemetrics", name.into())
        }
        _ => (
            api.get_as::<Pod>(&key).ok().and_then(|p| of_pod(server, &p)),
            "podmetrics",
            format!("{namespace}/{name}"),
        ),
    };
    found.ok_or(ApiError::VirtualNotFound { resource, group: GROUP, name: shown })
}

fn all(server: &Server, target: &MetricsTarget, selection: &Selection) -> Vec<Value> {
    fn selected<T: TypedKind>(
        objects: &[SharedObject<T>],
        selection: &Selection,
        measure: impl Fn(&SharedObject<T>) -> Option<Value>,
    ) -> Vec<Value> {
        objects.iter().filter(|o| selection.matches(o.object())).filter_map(measure).collect()
    }
    let api = server.api();
    if target.of == Kind::Node {
        return selected(&api.list_as::<Node>(None), selection, |node| of_node(server, node));
    }
    let pods = api.list_as::<Pod>(target.namespace.as_deref());
    selected(&pods, selection, |pod| of_pod(server, pod))
}

fn of_node(server: &Server, node: &SharedObject<Node>) -> Option<Value> {
    let measured = server.api().node_usage(node.name())?;
    let mut value = head(node.object(), "NodeMetrics", &measured);
    value["usage"] = amounts(measured.total);
    Some(value)
}

fn of_pod(server: &Server, pod: &SharedObject<Pod>) -> Option<Value> {
    let (measured, containers) = server.api().pod_usage(pod)?;
    if containers.is_empty() {
        return None;
    }
    let mut value = head(pod.object(), "PodMetrics", &measured);
    value["containers"] =
        containers.iter().map(|(name, usage)| json!({"name": name, "usage": amounts(*usage)})).collect();
    Some(value)
}

fn head(of: &Object, kind: &str, measured: &NodeUsage) -> Value {
    let mut metadata = json!({"name": of.name(), "creationTimestamp": time(measured.at)});
    if !of.namespace().is_empty() {
        metadata["namespace"] = of.namespace().into();
    }
    if let Some(labels) = &of.meta().labels {
        metadata["labels"] = json!(labels);
    }
    json!({
        "kind": kind, "apiVersion": format!("{GROUP}/{VERSION}"), "metadata": metadata,
        "timestamp": time(measured.reported_at), "window": go_duration(measured.window),
    })
}

/// Formats usage in the metrics server's units.
fn amounts(usage: ResourceUsage) -> Value {
    let cpu = match usage.cpu_nanocores {
        0 => "0".to_string(),
        nanos => format!("{nanos}n"),
    };
    json!({"cpu": cpu, "memory": format!("{}Ki", usage.memory_bytes.div_ceil(1024))})
}

/// Returns the cells of a table's row; a pod's usage is the sum of its containers'.
fn cells(measured: &Value) -> Value {
    let usages: Vec<&Value> = match measured["containers"].as_array() {
        Some(containers) => containers.iter().map(|container| &container["usage"]).collect(),
        None => vec![&measured["usage"]],
    };
    let sum = |resource: &str, unit: &str| -> String {
        let number = |u: &&Value| -> u64 {
            u[resource].as_str().and_then(|t| t.trim_end_matches(unit).parse().ok()).unwrap_or(0)
        };
        format!("{}{unit}", usages.iter().map(number).sum::<u64>())
    };
    json!([measured["metadata"]["name"], sum("cpu", "n"), sum("memory", "Ki"), measured["window"]])
}
