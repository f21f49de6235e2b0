//! Defaulting and validation of any object, as errors of the API.

use super::validate::{self, FieldError};
use super::{ApiError, Cause, default};
use crate::object::Object;

/// Fills in what Kubernetes fills in.
pub(super) fn apply_defaults(object: &mut Object) {
    default::apply_defaults(object);
}

/// Gives a new object what follows from its uid and name.
pub(super) fn give_identity(object: &mut Object) {
    default::give_identity(object);
}

/// Gives a new object the status it starts with.
pub(super) fn first_status(object: &mut Object) {
    default::first_status(object);
}

/// Keeps what the API gave the object and an update leaves out.
pub(super) fn keep_what_was_given(new: &mut Object, old: &Object) {
    default::keep_what_was_given(new, old);
}

/// Numbers the template of a kind whose changes of it are counted.
pub(super) fn number_template(new: &mut Object, old: Option<&Object>) {
    default::number_template(new, old);
}

/// Refuses a new object that breaks its kind's rules.
pub(super) fn check_create(object: &Object) -> Result<(), ApiError> {
    answer(object, validate::validate_create(object))
}

/// Refuses a change that breaks the kind's rules.
pub(super) fn check_update(new: &Object, old: &Object) -> Result<(), ApiError> {
    answer(new, validate::validate_update(new, old))
}

/// Refuses a status that breaks the kind's rules.
pub(super) fn check_status_update(new: &Object, old: &Object) -> Result<(), ApiError> {
    answer(new, validate::validate_status_update(new, old))
}

/// Refuses ephemeral containers that break the rules.
pub(super) fn check_ephemeral_containers(new: &Object, old: &Object) -> Result<(), ApiError> {
    answer(new, validate::validate_ephemeral_containers_update(new, old))
}

/// Refuses resources that a running pod cannot change to.
pub(super) fn check_resize(new: &Object, old: &Object) -> Result<(), ApiError> {
    answer(new, validate::validate_resize(new, old))
}

fn answer(object: &Object, errors: Vec<FieldError>) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    let causes = errors
        .into_iter()
        .map(|error| Cause {
            reason: error.reason.name().into(),
            message: error.message(),
            field: error.path,
        })
        .collect();
    Err(ApiError::Invalid { kind: object.kind(), name: object.name().into(), causes })
}
