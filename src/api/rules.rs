//! Defaulting and validation of any object, as errors of the API.

use super::ApiError;
use crate::object::Object;

/// Fills in what Kubernetes fills in.
pub(super) fn apply_defaults(_object: &mut Object) {}

/// Refuses a new object that breaks its kind's rules.
pub(super) fn check_create(_object: &Object) -> Result<(), ApiError> {
    Ok(())
}

/// Refuses a change that breaks the kind's rules.
pub(super) fn check_update(_new: &Object, _old: &Object) -> Result<(), ApiError> {
    Ok(())
}

/// Refuses a status that breaks the kind's rules.
pub(super) fn check_status_update(_new: &Object, _old: &Object) -> Result<(), ApiError> {
    Ok(())
}

/// Refuses ephemeral containers that break the rules.
pub(super) fn check_ephemeral_containers(_new: &Object, _old: &Object) -> Result<(), ApiError> {
    Ok(())
}
