//! Deployments, ReplicaSets and the other kinds that manage pods.

use serde_json::Value;

use super::builder::{DocumentBuilder, Tone, at, controller, identity, labels, pairs, selector, time};
use super::{conditions, container, pod};
use base::sort::SliceOrder;

/// Writes the description; `sets` are a Deployment's ReplicaSets.
pub(crate) fn describe(doc: &mut DocumentBuilder, object: &Value, sets: &[Value]) {
    let kind = object["kind"].as_str().unwrap_or_default();
    identity(doc, object);
    doc.field(0, "CreationTimestamp", time(&object["metadata"]["creationTimestamp"]));
    labels(doc, object);
    doc.field(0, "Selector", selector(&object["spec"]["selector"]));
    if let Some(controller) = controller(object) {
        doc.field(0, "Controlled By", controller);
    }
    let count = |path: &str| object.pointer(path).and_then(Value::as_i64).unwrap_or(0);
    let desired = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    match kind {
        "Deployment" => {
            let unavailable = count("/status/unavailableReplicas");
            doc.toned(
                0,
                "Replicas",
                format!(
                    "{desired} desired | {} updated | {} total | {} available | {unavailable} unavailable",
                    count("/status/updatedReplicas"),
                    count("/status/replicas"),
                    count("/status/availableReplicas"),
                ),
                if unavailable > 0 { Tone::Waiting } else { Tone::Plain },
            );
            doc.field(0, "StrategyType", at(object, "/spec/strategy/type"));
            doc.field(0, "MinReadySeconds", count("/spec/minReadySeconds").to_string());
            if object.pointer("/spec/strategy/rollingUpdate").is_some() {
                doc.field(
                    0,
                    "RollingUpdateStrategy",
                    format!(
                        "{} max unavailable, {} max surge",
                        at(object, "/spec/strategy/rollingUpdate/maxUnavailable"),
                        at(object, "/spec/strategy/rollingUpdate/maxSurge")
                    ),
                );
            }
            if object.pointer("/spec/paused") == Some(&Value::Bool(true)) {
                doc.toned(0, "Paused", "True", Tone::Waiting);
            }
        }
        "DaemonSet" => {
            for (title, path) in [
                ("Desired Number of Nodes Scheduled", "/status/desiredNumberScheduled"),
                ("Current Number of Nodes Scheduled", "/status/currentNumberScheduled"),
                ("Number of Nodes Scheduled with Up-to-date Pods", "/status/updatedNumberScheduled"),
                ("Number of Nodes Scheduled with Available Pods", "/status/numberAvailable"),
                ("Number of Nodes Misscheduled", "/status/numberMisscheduled"),
            ] {
                doc.field(0, title, count(path).to_string());
            }
        }
        "Job" => {
            doc.field(0, "Parallelism", at(object, "/spec/parallelism"));
            doc.field(0, "Completions", at(object, "/spec/completions"));
            doc.field(0, "Start Time", time(&object["status"]["startTime"]));
            if object.pointer("/status/completionTime").is_some() {
                doc.field(0, "Completed At", time(&object["status"]["completionTime"]));
            }
            doc.field(
                0,
                "Pods Statuses",
                format!(
                    "{} Active / {} Succeeded / {} Failed",
                    count("/status/active"),
                    count("/status/succeeded"),
                    count("/status/failed")
                ),
            );
        }
        _ => {
            doc.field(0, "Replicas", format!("{} current / {desired} desired", count("/status/replicas")));
            doc.field(
                0,
                "Pods Status",
                format!(
                    "{} ready / {} available",
                    count("/status/readyReplicas"),
                    count("/status/availableReplicas")
                ),
            );
        }
    }
    template(doc, &object["spec"]["template"]);
    conditions::describe(doc, object, &[("Type", "type"), ("Status", "status"), ("Reason", "reason")]);
    if kind == "Deployment" {
        replica_sets(doc, object, sets);
    }
}

fn template(doc: &mut DocumentBuilder, template: &Value) {
    if template.is_null() {
        return;
    }
    doc.head(0, "Pod Template");
    doc.list(2, "Labels", pairs(template, "/metadata/labels", "="));
    let annotations = pairs(template, "/metadata/annotations", ": ");
    if !annotations.is_empty() {
        doc.list(2, "Annotations", annotations);
    }
    if template.pointer("/spec/serviceAccountName").is_some() {
        doc.field(2, "Service Account", at(template, "/spec/serviceAccountName"));
    }
    container::describe_all(doc, 2, &template["spec"], None);
    container::volumes(doc, 2, &template["spec"]);
    pod::placement(doc, 2, &template["spec"]);
}

fn replica_sets(doc: &mut DocumentBuilder, deployment: &Value, sets: &[Value]) {
    const REVISION: &str = "/metadata/annotations/deployment.kubernetes.io~1revision";
    let revision = at(deployment, REVISION);
    let line = |set: &Value| {
        let count = |path: &str| set.pointer(path).and_then(Value::as_i64).unwrap_or(0);
        format!(
            "{} ({}/{} replicas created)",
            at(set, "/metadata/name"),
            count("/status/replicas"),
            count("/spec/replicas")
        )
    };
    let (new, old): (Vec<&Value>, Vec<&Value>) = sets.iter().partition(|set| at(set, REVISION) == revision);
    // kubectl sorts them by name.
    let mut old: Vec<String> = old.into_iter().map(line).collect();
    old.order();
    doc.field(0, "OldReplicaSets", old.join(", "));
    doc.field(0, "NewReplicaSet", new.into_iter().map(line).collect::<Vec<_>>().join(", "));
}
