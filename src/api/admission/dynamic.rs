//! Dynamic admission control: what users have configured is asked once all plugins have said their word, as Kubernetes
//! orders it: mutating policies, mutating webhooks; and, of what would be stored, validating policies, validating
//! webhooks.

use super::attributes::{Attributes, WriteAttributes};
use super::policy;
use crate::{Api, ApiError};
use object::Object;

/// Lets what is configured change an object on its way.
#[expect(clippy::unnecessary_wraps, reason = "policies and webhooks refuse")]
pub(super) fn mutate(_api: &Api, _asked: &WriteAttributes<'_>, _object: &mut Object) -> Result<(), ApiError> {
    Ok(())
}

/// Asks what is configured whether a request may be granted.
pub(super) fn validate(api: &Api, asked: &Attributes<'_>) -> Result<(), ApiError> {
    policy::validate(api, asked)
}
