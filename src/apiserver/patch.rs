//! The patch of a request, and its application to an object.

use axum::extract::Request;
use bytes::Bytes;
use serde_json::Value;

use super::body;
use api::ApiError;
use apimachinery::patch::{PatchTarget, PatchType, apply_patch};
use object::ServedKind;

/// A patch of a supported type.
pub(super) struct Patch {
    type_: PatchType,
    bytes: Bytes,
}

impl Patch {
    pub(super) async fn read(request: Request) -> Result<Self, ApiError> {
        let type_ = PatchType::from_content_type(&body::media_type(&request));
        // Checked before the object is looked up: kubectl reports a 415 as "server-side apply is not
        // available", but a 404 as a missing object that the apply should have created.
        let Some(type_) = type_.filter(|type_| SERVED.contains(type_)) else { return Err(unsupported()) };
        let bytes = body::read_bytes(request).await?;
        body::refuse_oversized_patch(&bytes)?;
        Ok(Self { type_, bytes })
    }

    /// Returns the patched object.
    pub(super) fn apply(&self, served: ServedKind, current: &Value) -> Result<Value, ApiError> {
        Ok(apply_patch(served, self.type_, current, &self.bytes)?)
    }

    /// Returns the patched scale of an object. A strategic merge patch may name any kind, because Kubernetes
    /// ignores it there: clients send the workload's own.
    pub(super) fn apply_to_scale(&self, current: &Value) -> Result<Value, ApiError> {
        let target = PatchTarget { group: "autoscaling", version: "v1", kind: "Scale" };
        let mut patched = apply_patch(target, self.type_, current, &self.bytes)?;
        if self.type_ == PatchType::StrategicMerge
            && let Some(fields) = patched.as_object_mut()
        {
            for name in ["kind", "apiVersion"] {
                fields.insert(name.into(), current[name].clone());
            }
        }
        Ok(patched)
    }
}

/// The supported patch types; an apply is read in [`super::server_side_apply`].
const SERVED: [PatchType; 4] =
    [PatchType::Json, PatchType::Merge, PatchType::StrategicMerge, PatchType::Apply];

/// Returns Kubernetes' refusal of any other type.
fn unsupported() -> ApiError {
    let served = SERVED.map(PatchType::content_type).join(", ");
    ApiError::UnsupportedMediaType(format!(
        "the body of the request was in an unknown format - accepted media types include: {served}"
    ))
}
