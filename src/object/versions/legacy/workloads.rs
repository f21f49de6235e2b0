//! Deployments, ReplicaSets, DaemonSets and StatefulSets of `extensions/v1beta1` and `apps/v1beta1`: their selectors
//! default to their templates' labels, and their update strategies have other defaults.

use serde_json::{Value, json};

use super::{default, within};

/// No limit: the default in these versions.
const ENDLESS: i32 = i32::MAX;

pub(super) fn extensions_deployment(deployment: &mut Value) {
    selected_by_labels(deployment);
    let Some(spec) = within(deployment, &["spec"]) else { return };
    spec.remove("rollbackTo");
    default(spec, "revisionHistoryLimit", ENDLESS.into());
    default(spec, "progressDeadlineSeconds", ENDLESS.into());
    let Some(strategy) = within(deployment, &["spec", "strategy"]) else { return };
    default(strategy, "type", "RollingUpdate".into());
    if strategy.get("type") != Some(&json!("RollingUpdate")) {
        return;
    }
    if let Some(rolling) = within(deployment, &["spec", "strategy", "rollingUpdate"]) {
        default(rolling, "maxUnavailable", 1.into());
        default(rolling, "maxSurge", 1.into());
    }
}

pub(super) fn apps_v1beta1_deployment(deployment: &mut Value) {
    selected_by_labels(deployment);
    if let Some(spec) = within(deployment, &["spec"]) {
        spec.remove("rollbackTo");
        default(spec, "revisionHistoryLimit", 2.into());
    }
}

pub(super) fn extensions_daemon_set(set: &mut Value) {
    on_delete(set);
    if let Some(spec) = within(set, &["spec"]) {
        spec.remove("templateGeneration");
    }
}

pub(super) fn apps_v1beta1_stateful_set(set: &mut Value) {
    on_delete(set);
}

/// Sets the default update strategy OnDelete.
fn on_delete(set: &mut Value) {
    selected_by_labels(set);
    if let Some(strategy) = within(set, &["spec", "updateStrategy"]) {
        default(strategy, "type", "OnDelete".into());
    }
}

/// Defaults selector and labels to the template's labels.
pub(super) fn selected_by_labels(workload: &mut Value) {
    let labels = workload.pointer("/spec/template/metadata/labels").filter(|labels| labels.is_object());
    let Some(labels) = labels.cloned() else { return };
    if let Some(spec) = within(workload, &["spec"]) {
        default(spec, "selector", json!({"matchLabels": labels}));
    }
    if let Some(metadata) = within(workload, &["metadata"]) {
        if metadata.get("labels").and_then(Value::as_object).is_some_and(serde_json::Map::is_empty) {
            metadata.remove("labels");
        }
        default(metadata, "labels", labels);
    }
}
