//! Defaults of the kinds that run pods from a template.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{PodTemplate, PodTemplateSpec, ReplicationController};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{apply_pod_spec_defaults, set, set_text, storage};

pub(super) fn deployment(deployment: &mut Deployment) {
    let spec = &mut deployment.spec;
    set(&mut spec.replicas, 1);
    set(&mut spec.revision_history_limit, 10);
    set(&mut spec.progress_deadline_seconds, 600);
    let strategy = spec.strategy.get_or_insert_default();
    set_text(&mut strategy.type_, "RollingUpdate");
    if strategy.type_.as_deref() == Some("RollingUpdate") {
        let rolling = strategy.rolling_update.get_or_insert_default();
        set(&mut rolling.max_unavailable, IntOrString::String("25%".into()));
        set(&mut rolling.max_surge, IntOrString::String("25%".into()));
    }
    template(&mut spec.template);
}

pub(super) fn replica_set(replica_set: &mut ReplicaSet) {
    let spec = &mut replica_set.spec;
    set(&mut spec.replicas, 1);
    template(spec.template.get_or_insert_default());
}

pub(super) fn replication_controller(controller: &mut ReplicationController) {
    let spec = controller.spec.get_or_insert_default();
    set(&mut spec.replicas, 1);
    let made = spec.template.get_or_insert_default();
    template(made);
    let labels = made.metadata.as_ref().and_then(|m| m.labels.clone()).unwrap_or_default();
    if !labels.is_empty() {
        let missing = |map: Option<&_>| map.is_none_or(std::collections::BTreeMap::is_empty);
        if missing(spec.selector.as_ref()) {
            spec.selector = Some(labels.clone());
        }
        if missing(controller.metadata.labels.as_ref()) {
            controller.metadata.labels = Some(labels);
        }
    }
}

pub(super) fn stateful_set(stateful_set: &mut StatefulSet) {
    let spec = &mut stateful_set.spec;
    set(&mut spec.replicas, 1);
    set(&mut spec.revision_history_limit, 10);
    set_text(&mut spec.pod_management_policy, "OrderedReady");
    let strategy = spec.update_strategy.get_or_insert_default();
    set_text(&mut strategy.type_, "RollingUpdate");
    if strategy.type_.as_deref() == Some("RollingUpdate") {
        let rolling = strategy.rolling_update.get_or_insert_default();
        set(&mut rolling.partition, 0);
        set(&mut rolling.max_unavailable, IntOrString::Int(1));
    }
    let retention = spec.persistent_volume_claim_retention_policy.get_or_insert_default();
    set_text(&mut retention.when_deleted, "Retain");
    set_text(&mut retention.when_scaled, "Retain");
    for claim in spec.volume_claim_templates.iter_mut().flatten() {
        storage::claim(claim);
    }
    template(&mut spec.template);
}

pub(super) fn daemon_set(daemon_set: &mut DaemonSet) {
    let spec = &mut daemon_set.spec;
    set(&mut spec.revision_history_limit, 10);
    let strategy = spec.update_strategy.get_or_insert_default();
    set_text(&mut strategy.type_, "RollingUpdate");
    if strategy.type_.as_deref() == Some("RollingUpdate") {
        let rolling = strategy.rolling_update.get_or_insert_default();
        set(&mut rolling.max_unavailable, IntOrString::Int(1));
        set(&mut rolling.max_surge, IntOrString::Int(0));
    }
    template(&mut spec.template);
}

pub(super) fn pod_template(object: &mut PodTemplate) {
    template(object.template.get_or_insert_default());
}

pub(super) fn template(template: &mut PodTemplateSpec) {
    apply_pod_spec_defaults(template.spec.get_or_insert_default());
}
