//! Rules of storage classes: what they make cannot be changed behind the backs of those who used them.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::TopologySelectorTerm;
use k8s_openapi::api::storage::v1::StorageClass;

use super::super::field::{FieldErrors, Path};
use super::super::{metadata, names};

/// Parameters there may be, and bytes of all their names and values.
const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETER_BYTES: usize = 256 * 1024;

pub(in crate::api::validate) fn class(errors: &mut FieldErrors, class: &StorageClass) {
    let path = Path::root("provisioner");
    if class.provisioner.is_empty() {
        errors.required(&path, "");
    } else {
        let lower = class.provisioner.to_lowercase();
        errors.invalid_each(&path, &class.provisioner, names::qualified_name(&lower));
    }
    parameters(errors, class);
    let policy = class.reclaim_policy.as_deref().unwrap_or_default();
    errors.one_of(&Path::root("reclaimPolicy"), policy, &["Delete", "Retain"]);
    errors.required_one_of(
        &Path::root("volumeBindingMode"),
        class.volume_binding_mode.as_deref(),
        &["Immediate", "WaitForFirstConsumer"],
    );
    let path = Path::root("allowedTopologies");
    for (i, term) in class.allowed_topologies.iter().flatten().enumerate() {
        topology(errors, &path.index(i), term);
    }
}

fn parameters(errors: &mut FieldErrors, class: &StorageClass) {
    let path = Path::root("parameters");
    let parameters = class.parameters.iter().flatten();
    if parameters.clone().count() > MAX_PARAMETERS {
        errors.too_long(&path, MAX_PARAMETERS);
    }
    let mut bytes = 0;
    for (key, value) in parameters {
        if key.is_empty() {
            errors.invalid(&path, key, "field can not be empty.");
        }
        bytes += key.len() + value.len();
    }
    if bytes > MAX_PARAMETER_BYTES {
        errors.too_long(&path, MAX_PARAMETER_BYTES);
    }
}

fn topology(errors: &mut FieldErrors, path: &Path<'_>, term: &TopologySelectorTerm) {
    let list = path.child("matchLabelExpressions");
    let expressions = term.match_label_expressions.as_deref().unwrap_or_default();
    if expressions.is_empty() {
        errors.required(&list, "");
    }
    let mut keys = HashSet::new();
    for (i, expression) in expressions.iter().enumerate() {
        let path = list.index(i);
        if !keys.insert(&expression.key) {
            errors.duplicate(&path.child("key"), &expression.key);
        }
        let values = path.child("values");
        if expression.values.is_empty() {
            errors.required(&values, "");
        }
        let mut seen = HashSet::new();
        for (i, value) in expression.values.iter().enumerate() {
            if !seen.insert(value) {
                errors.duplicate(&values.index(i), value);
            }
        }
        metadata::label_key(errors, &path.child("key"), &expression.key);
    }
}

pub(in crate::api::validate) fn class_update(
    errors: &mut FieldErrors,
    new: &StorageClass,
    old: &StorageClass,
) {
    class(errors, new);
    for (field, changed) in [
        ("parameters", new.parameters != old.parameters),
        ("provisioner", new.provisioner != old.provisioner),
        ("reclaimPolicy", new.reclaim_policy != old.reclaim_policy),
    ] {
        if changed {
            let dot = if field == "parameters" { "." } else { "" };
            errors.forbidden(&Path::root(field), format!("updates to {field} are forbidden{dot}"));
        }
    }
    errors.immutable(&Path::root("volumeBindingMode"), &new.volume_binding_mode, &old.volume_binding_mode);
}
