//! Rules of StatefulSets and of the revisions of templates.

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};

use super::field::{FieldErrors, Path};
use super::workload;

pub(super) fn stateful_set(errors: &mut FieldErrors, set: &StatefulSet) {
    let spec = &set.spec;
    let path = Path::root("spec");
    for (field, number) in [
        ("replicas", spec.replicas),
        ("minReadySeconds", spec.min_ready_seconds),
        ("revisionHistoryLimit", spec.revision_history_limit),
    ] {
        errors.non_negative(&path.child(field), number.unwrap_or(0));
    }
    errors.required_one_of(
        &path.child("podManagementPolicy"),
        spec.pod_management_policy.as_deref(),
        &["OrderedReady", "Parallel"],
    );
    workload::required_selector(errors, &path, &spec.selector);
    workload::selector_and_template(errors, &path, &spec.selector, Some(&spec.template));
}

pub(super) fn update(errors: &mut FieldErrors, new: &StatefulSet, old: &StatefulSet) {
    stateful_set(errors, new);
    errors.immutable(&Path::root("spec.selector"), &new.spec.selector, &old.spec.selector);
}

pub(super) fn revision(errors: &mut FieldErrors, revision: &ControllerRevision) {
    if revision.data.0.is_null() {
        errors.required(&Path::root("data"), "data is mandatory");
    }
    errors.non_negative(&Path::root("revision"), revision.revision.unwrap_or(0));
}

pub(super) fn revision_update(errors: &mut FieldErrors, new: &ControllerRevision, old: &ControllerRevision) {
    revision(errors, new);
    if new.data != old.data {
        errors.invalid(&Path::root("data"), &new.data.0, "field is immutable");
    }
}
