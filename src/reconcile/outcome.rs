//! Results of writes and reads of objects that may be deleted already.

use api::ApiError;

/// Turns 404 into success: a deleted object needs no more work.
pub fn ignore_not_found<T>(outcome: Result<T, ApiError>) -> Result<(), ApiError> {
    optional(outcome).map(drop)
}

/// Does the same as [`ignore_not_found`], for a write by uid or version: also ignores 409, which means that the
/// object was replaced or changed.
pub fn ignore_gone<T>(outcome: Result<T, ApiError>) -> Result<(), ApiError> {
    match outcome {
        Err(error) if !error.is_not_found_or_conflict() => Err(error),
        _ => Ok(()),
    }
}

/// Turns 404 into `None`.
pub fn optional<T>(outcome: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
