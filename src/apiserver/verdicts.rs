//! podium.dev's scheduling verdicts. Read only: `schedulingverdicts` has the scheduler's last result for
//! every pending pod, node by node, and the changes that would make it fit (SCH-9, CON-9).

use axum::response::Response;
use http::Method;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::Server;
use super::response_format::ResponseFormat;
use super::table;
use super::virtual_objects::VirtualObjects;
use api::ApiError;
use api::verdicts::{FilterRefusal, Hint, NodeVerdict, SchedulingVerdict};
use base::clock::time;
use object::time::human_age;
use object::{Key, Kind, SharedObject};

/// The API group.
pub(super) const GROUP: &str = "podium.dev";
/// The version of the group.
pub(super) const VERSION: &str = "v1alpha1";
/// The resource.
pub(super) const PLURAL: &str = "schedulingverdicts";
/// Its kind.
pub(super) const KIND: &str = "SchedulingVerdict";

/// The target of a path below the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VerdictTarget {
    namespace: Option<String>,
    pod: Option<String>,
}

impl VerdictTarget {
    /// Parses the path after the version.
    pub(super) fn parse(rest: &[&str]) -> Option<Self> {
        let (namespace, pod) = match rest {
            [PLURAL] => (None, None),
            ["namespaces", namespace, PLURAL] => (Some(*namespace), None),
            ["namespaces", namespace, PLURAL, pod] => (Some(*namespace), Some(*pod)),
            _ => return None,
        };
        Some(Self { namespace: namespace.map(Into::into), pod: pod.map(Into::into) })
    }

    /// Returns true if it names a collection.
    pub(super) fn is_collection(&self) -> bool {
        self.pod.is_none()
    }
}

/// Answers a request below the group.
pub(super) fn handle(
    server: &Server,
    target: &VerdictTarget,
    method: &Method,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    format.only_reads(method)?;
    let api = server.api();
    let found: Vec<(SharedObject<Pod>, SchedulingVerdict)> = if let Some(name) = &target.pod {
        let namespace = target.namespace.clone().unwrap_or_default();
        let pod = api.get_as::<Pod>(&Key::new(&namespace, name)).ok();
        let verdict = pod.and_then(|pod| Some((pod.clone(), api.scheduling_verdict(pod.uid())?)));
        let missing = || ApiError::VirtualNotFound {
            resource: PLURAL,
            group: GROUP,
            name: format!("{namespace}/{name}"),
        };
        vec![verdict.ok_or_else(missing)?]
    } else {
        let selection = format.query.selection(&server.api().kinds(), Kind::Pod.into())?;
        let pods = api.list_as::<Pod>(target.namespace.as_deref());
        let selected = pods.into_iter().filter(|pod| selection.matches(pod.object()));
        selected.filter_map(|pod| Some((pod.clone(), api.scheduling_verdict(pod.uid())?))).collect()
    };
    let is_single = !target.is_collection();
    let to_json = |(pod, verdict): &(SharedObject<Pod>, SchedulingVerdict)| {
        // A list omits the nodes: pods times nodes times filters is more than anyone reads.
        if is_single { whole(pod, verdict) } else { summary(pod, verdict) }
    };
    let verdicts = VirtualObjects {
        kind: KIND,
        api_version: format!("{GROUP}/{VERSION}"),
        metadata: json!({}),
        objects: found.iter().map(to_json).collect(),
        is_single,
    };
    let now = api.server_clock().now();
    verdicts.respond(format, |version, include, all| {
        let columns = ["Name", "Attempted", "Would fit"].map(|name| (name, "string"));
        let cells = found.iter().map(|(pod, verdict)| cells(pod, verdict, now));
        table::of_rows(version, include, &columns, all.iter().zip(cells))
    })
}

fn summary(pod: &SharedObject<Pod>, verdict: &SchedulingVerdict) -> Value {
    let to_json = |hint: &Hint| json!({"node": hint.node, "changes": hint.changes, "alike": hint.alike});
    let hints: Vec<Value> = verdict.hints.iter().map(to_json).collect();
    json!({
        "kind": KIND, "apiVersion": format!("{GROUP}/{VERSION}"),
        "metadata": {"name": pod.name(), "namespace": pod.namespace(), "uid": pod.uid(),
            "creationTimestamp": pod.metadata.creation_timestamp, "labels": pod.metadata.labels},
        "attemptedAt": time(verdict.attempted_at), "message": verdict.message, "hints": hints,
    })
}

fn whole(pod: &SharedObject<Pod>, verdict: &SchedulingVerdict) -> Value {
    let refusal = |refusal: &FilterRefusal| json!({"plugin": refusal.plugin, "reasons": refusal.reasons});
    let node = |node: &NodeVerdict| {
        let refusals: Vec<Value> = node.refusals.iter().map(refusal).collect();
        json!({"name": node.name, "refusals": refusals, "scores": node.scores})
    };
    let nodes: Vec<Value> = verdict.nodes.iter().map(node).collect();
    let scored_by: Vec<Value> = verdict
        .scored_by
        .iter()
        .map(|(plugin, weight)| json!({"plugin": plugin, "weight": weight}))
        .collect();
    let mut value = summary(pod, verdict);
    value["filters"] = json!(verdict.filters);
    value["scoredBy"] = json!(scored_by);
    value["nodes"] = json!(nodes);
    value
}

fn cells(pod: &SharedObject<Pod>, verdict: &SchedulingVerdict, now: Timestamp) -> Value {
    let hint = verdict.hints.first().map_or_else(
        || "<none>".to_string(),
        |hint| format!("{}: {}", hint.node, hint.changes.join(" and ")),
    );
    json!([pod.name(), human_age(verdict.attempted_at, now), hint])
}
