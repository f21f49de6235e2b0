//! Rules of DaemonSets.

use k8s_openapi::api::apps::v1::DaemonSet;

use super::field::{FieldErrors, Path};
use super::workload;

pub(super) fn daemon_set(errors: &mut FieldErrors, set: &DaemonSet) {
    let spec = &set.spec;
    let path = Path::root("spec");
    workload::required_selector(errors, &path, &spec.selector, "daemonset");
    workload::selector_and_template(errors, &path, &spec.selector, Some(&spec.template), "DaemonSet");
    for (field, number) in
        [("minReadySeconds", spec.min_ready_seconds), ("revisionHistoryLimit", spec.revision_history_limit)]
    {
        errors.non_negative(&path.child(field), number.unwrap_or(0));
    }
}

pub(super) fn update(errors: &mut FieldErrors, new: &DaemonSet, old: &DaemonSet) {
    daemon_set(errors, new);
    errors.immutable(&Path::root("spec.selector"), &new.spec.selector, &old.spec.selector);
}
