//! A patch as it arrives, and what it makes of an object.

use axum::extract::Request;
use bytes::Bytes;
use serde_json::Value;

use super::body;
use crate::api::ApiError;
use crate::object::Kind;

/// One patch, of one of the types that Kubernetes knows.
pub(super) struct Patch {
    media_type: String,
    bytes: Bytes,
}

impl Patch {
    pub(super) async fn read(request: Request) -> Result<Self, ApiError> {
        let media_type = body::media_type(&request);
        Ok(Self { media_type, bytes: body::read_bytes(request).await? })
    }

    /// The patched value.
    pub(super) fn apply(&self, _kind: Kind, current: Value) -> Result<Value, ApiError> {
        let patch: Value = serde_json::from_slice(&self.bytes)
            .map_err(|e| ApiError::BadRequest(format!("error decoding patch: {e}")))?;
        match self.media_type.as_str() {
            "application/merge-patch+json" => {
                let mut next = current;
                json_patch::merge(&mut next, &patch);
                Ok(next)
            }
            _ => Err(ApiError::UnsupportedMediaType("415: Unsupported Media Type".into())),
        }
    }
}
