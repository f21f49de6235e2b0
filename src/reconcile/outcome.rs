//! What a write or a read that came too late means.

use api::ApiError;

/// What is gone needs nothing more: 404 is fine.
pub fn ignore_not_found<T>(outcome: Result<T, ApiError>) -> Result<(), ApiError> {
    found(outcome).map(drop)
}

/// As [`ignore_not_found`], for a write to one object by its uid or version: 409 says that it is another by now.
pub fn ignore_gone<T>(outcome: Result<T, ApiError>) -> Result<(), ApiError> {
    match outcome {
        Err(error) if !error.is_gone() => Err(error),
        _ => Ok(()),
    }
}

/// What was read; none when it is not there.
pub fn found<T>(outcome: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
