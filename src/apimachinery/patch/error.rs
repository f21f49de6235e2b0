//! The reasons why patches are refused, in Kubernetes' words.

use thiserror::Error;

use crate::ApiError;

/// The reason why a patch is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PatchError {
    /// The body is no patch of its type: 400 `BadRequest`.
    #[error("{0}")]
    BadRequest(String),
    /// The body is a patch, but does not fit this object: 422 `Invalid`.
    #[error("{0}")]
    Unprocessable(String),
    /// A `test` operation of the patch fails: 422 `Invalid`.
    #[error("{0}")]
    TestFailed(String),
    /// The body has too many operations or bytes: 413 `RequestEntityTooLarge`.
    #[error("Request entity too large: {0}")]
    TooLarge(String),
    /// This kind does not support this type of patch: 415 `UnsupportedMediaType`. Holds the content type.
    #[error(
        "the body of the request was in an unknown format - accepted media types include: \
         application/json-patch+json, application/merge-patch+json{}",
        if .0.contains("strategic") { "" } else { ", application/strategic-merge-patch+json" }
    )]
    UnsupportedMediaType(String),
}

impl PatchError {
    /// Returns true if a `test` operation failed.
    pub fn is_failed_test(&self) -> bool {
        matches!(self, Self::TestFailed(_))
    }
}

impl From<PatchError> for ApiError {
    fn from(error: PatchError) -> Self {
        let message = error.to_string();
        match error {
            PatchError::BadRequest(_) => Self::BadRequest(message),
            PatchError::TooLarge(_) => Self::TooLarge(message),
            PatchError::UnsupportedMediaType(_) => Self::UnsupportedMediaType(message),
            PatchError::Unprocessable(_) | PatchError::TestFailed(_) => Self::Unprocessable(message),
        }
    }
}
