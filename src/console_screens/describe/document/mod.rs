//! The description of an object, as `kubectl describe` prints it, as lines with tones.
//!
//! Pure: reads the object as JSON, with its events and relatives as arguments. The most frequent kinds have their own
//! file, and [`generic`] describes every other kind. Never shows a Secret's data.

mod builder;
mod conditions;
mod container;
mod events;
mod generic;
mod node;
mod node_fence;
mod pod;
mod service;
mod workload;

pub(crate) use builder::{DocumentBuilder, Line, Tone};

use console_toolkit::text::{age, seconds_between};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use serde_json::Value;

/// The data that a description shows besides the object.
#[derive(Debug, Default)]
pub(crate) struct RelatedObjects<'a> {
    pub(crate) events: Vec<&'a Event>,
    /// A Deployment's ReplicaSets or a Node's pods, as JSON.
    pub(crate) others: Vec<Value>,
    /// Objects that only a description reads: a Node's Lease, a Service's EndpointSlices.
    pub(crate) beside: &'a [Value],
    /// The effect of network policies on the object, one line each.
    pub(crate) policies: &'a [String],
}

/// Describes an object. It has no ages if the time is unknown.
pub(crate) fn describe(object: &Value, relatives: &RelatedObjects<'_>, now: Option<Timestamp>) -> Vec<Line> {
    let mut doc = DocumentBuilder::default();
    match object["kind"].as_str().unwrap_or_default() {
        "Pod" => pod::describe(&mut doc, object),
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "ReplicationController" | "Job" => {
            workload::describe(&mut doc, object, &relatives.others);
        }
        "Node" => node::describe(&mut doc, object, &relatives.others, relatives.beside, now),
        "NodeFence" => node_fence::describe(&mut doc, object),
        "Service" => service::describe(&mut doc, object, relatives.beside),
        "ConfigMap" => generic::config_map(&mut doc, object),
        "Secret" => generic::secret(&mut doc, object),
        _ => generic::describe(&mut doc, object),
    }
    if !relatives.policies.is_empty() {
        doc.list(0, "Network Policies", relatives.policies.iter().cloned());
    }
    events::describe(&mut doc, &relatives.events, now);
    doc.finish()
}

/// Returns an age; an empty text if the time is unknown.
fn age_at(now: Option<Timestamp>, since: Timestamp) -> String {
    now.map_or_else(String::new, |now| age(seconds_between(since, now)))
}
