//! What `kubectl describe` says of an object, as lines that know what they are.
//!
//! Pure: reads the object as JSON, with its events and relatives given. It works for every kind: the ones
//! people describe most have their own file, [`generic`] does the rest. Never shows a Secret's data.

mod conditions;
mod container;
mod doc;
mod events;
mod generic;
mod node;
mod node_fence;
mod pod;
mod service;
mod workload;

pub(crate) use doc::{Doc, Line, Tone};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use serde_json::Value;

/// What stands beside the object.
#[derive(Debug, Default)]
pub(crate) struct Relatives<'a> {
    /// Its events.
    pub(crate) events: Vec<&'a Event>,
    /// A Deployment's ReplicaSets, a Node's pods: as JSON.
    pub(crate) others: Vec<Value>,
    /// What only describe asks for: a Node's Lease, a Service's EndpointSlices.
    pub(crate) beside: &'a [Value],
    /// What network policies mean for it, a line each.
    pub(crate) policies: &'a [String],
}

/// Describes an object as it is now.
pub(crate) fn describe(object: &Value, relatives: &Relatives<'_>, now: Timestamp) -> Vec<Line> {
    let mut doc = Doc::default();
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
