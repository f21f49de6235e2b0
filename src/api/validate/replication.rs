//! Rules of ReplicationControllers and pod templates.

use k8s_openapi::api::core::v1::{PodTemplate, ReplicationController};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::field::{FieldErrors, Path};
use super::{pod_spec, workload};

pub(super) fn controller(errors: &mut FieldErrors, controller: &ReplicationController) {
    let path = Path::root("spec");
    let Some(spec) = &controller.spec else { return errors.required(&path, "") };
    errors.non_negative(&path.child("minReadySeconds"), spec.min_ready_seconds.unwrap_or(0));
    if spec.selector.as_ref().is_none_or(std::collections::BTreeMap::is_empty) {
        errors.required(&path.child("selector"), "");
    }
    errors.non_negative(&path.child("replicas"), spec.replicas.unwrap_or(0));
    let selector = LabelSelector { match_labels: spec.selector.clone(), ..LabelSelector::default() };
    let owner = "ReplicationController";
    workload::selector_and_template_of(owner, errors, &path, &selector, spec.template.as_ref());
}

pub(super) fn controller_status(errors: &mut FieldErrors, controller: &ReplicationController) {
    let Some(status) = &controller.status else { return };
    let parts = [
        ("fullyLabeledReplicas", status.fully_labeled_replicas),
        ("readyReplicas", status.ready_replicas),
        ("availableReplicas", status.available_replicas),
    ];
    workload::replica_counts(errors, status.replicas, &parts);
    let (available, ready) = (status.available_replicas, status.ready_replicas);
    workload::available_within_ready(errors, available, ready, "readyReplicas");
}

pub(super) fn pod_template(errors: &mut FieldErrors, object: &PodTemplate) {
    if let Some(template) = &object.template {
        pod_spec::template(errors, &Path::root("template"), template);
    }
}
