//! Rules of status conditions, in the form that most kinds share.

use std::collections::HashSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::field::{FieldErrors, Path};
use super::{metadata, names};

const MAX_REASON_BYTES: usize = 1024;
const MAX_MESSAGE_BYTES: usize = 32 * 1024;

/// Validates conditions; their types must differ.
pub fn conditions(errors: &mut FieldErrors, list: &Path<'_>, conditions: Option<&[Condition]>) {
    let mut seen = HashSet::new();
    for (path, one) in list.each(conditions.unwrap_or_default().iter()) {
        errors.unique(&mut seen, &path.child("type"), &one.type_);
        condition(errors, &path, one);
    }
}

fn condition(errors: &mut FieldErrors, path: &Path<'_>, condition: &Condition) {
    metadata::label_key(errors, &path.child("type"), &condition.type_);
    errors.one_of(&path.child("status"), &condition.status, &["False", "True", "Unknown"]);
    if let Some(generation) = condition.observed_generation.filter(|generation| *generation < 0) {
        let path = path.child("observedGeneration");
        errors.invalid(&path, &generation, "must be greater than or equal to zero");
    }
    let reason = path.child("reason");
    if condition.reason.is_empty() {
        errors.required(&reason, "must be set");
    } else {
        errors.invalid_each(&reason, &condition.reason, names::condition_reason(&condition.reason));
        if condition.reason.len() > MAX_REASON_BYTES {
            errors.too_long(&reason, MAX_REASON_BYTES);
        }
    }
    if condition.message.len() > MAX_MESSAGE_BYTES {
        errors.too_long(&path.child("message"), MAX_MESSAGE_BYTES);
    }
}
