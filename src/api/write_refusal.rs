//! The store's refusals of writes, as the errors that clients get.

use super::ApiError;
use object::Kind;
use store::WriteError;

/// Converts the store's refusal of a write to the error that the client gets.
pub(super) fn write_refusal(error: WriteError, kind: Kind, name: &str) -> ApiError {
    match error {
        WriteError::Exists => ApiError::AlreadyExists { kind, name: name.into() },
        WriteError::Absent => ApiError::NotFound { kind, name: name.into() },
        WriteError::Conflict(_) => ApiError::modified(kind, name),
        WriteError::Disk(reason) => {
            ApiError::Internal(format!("the data directory cannot be written: {reason}; nothing was changed"))
        }
    }
}
