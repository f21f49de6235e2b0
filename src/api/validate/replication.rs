//! Rules of ReplicationControllers and pod templates.

use k8s_openapi::api::core::v1::{PodTemplate, ReplicationController};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::field::{FieldErrors, Path};
use super::{pod_spec, workload};

pub(super) fn controller(errors: &mut FieldErrors, controller: &ReplicationController) {
    let path = Path::root("spec");
    let Some(spec) = &controller.spec else { return errors.required(&path, "") };
    for (field, number) in [("replicas", spec.replicas), ("minReadySeconds", spec.min_ready_seconds)] {
        errors.non_negative(&path.child(field), number.unwrap_or(0));
    }
    if spec.selector.as_ref().is_none_or(std::collections::BTreeMap::is_empty) {
        errors.required(&path.child("selector"), "");
    }
    let selector = LabelSelector { match_labels: spec.selector.clone(), ..LabelSelector::default() };
    workload::selector_and_template(errors, &path, &selector, spec.template.as_ref());
}

pub(super) fn pod_template(errors: &mut FieldErrors, object: &PodTemplate) {
    if let Some(template) = &object.template {
        pod_spec::template(errors, &Path::root("template"), template);
    }
}
