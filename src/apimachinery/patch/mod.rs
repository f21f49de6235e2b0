//! Patches: computes the patched JSON from a stored object's JSON and a request body.
//!
//! Pure: nothing here reads the store, decodes into types, defaults or validates; the caller does that with
//! the result, as for any update. Server-side apply also needs the managed fields and is implemented
//! separately.

mod error;
mod json;
mod merge;
mod order;
mod strategic;

pub use error::PatchError;

use serde_json::Value;

use super::schema::{MAX_DEPTH, graph};

/// The limit on a patch's body, the same as for whole objects.
pub const MAX_PATCH_BYTES: usize = 3 * 1024 * 1024;

/// The type of a patch, by its content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// `application/json-patch+json`, RFC 6902.
    Json,
    /// `application/merge-patch+json`, RFC 7386.
    Merge,
    /// `application/strategic-merge-patch+json`.
    StrategicMerge,
    /// `application/apply-patch+yaml`: server-side apply.
    Apply,
}

impl PatchType {
    /// Returns the patch type of a `Content-Type` header; parameters such as `charset` are ignored.
    pub fn from_content_type(header: &str) -> Option<Self> {
        match header.split(';').next().unwrap_or("").trim().to_ascii_lowercase().as_str() {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::StrategicMerge),
            "application/apply-patch+yaml" => Some(Self::Apply),
            _ => None,
        }
    }

    /// Its content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::StrategicMerge => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

/// The type of the patched object, whose schema determines how lists merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchTarget<'a> {
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The group's version.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
}

impl From<object::ServedKind> for PatchTarget<'static> {
    fn from(served: object::ServedKind) -> Self {
        // Legacy versions have no types of their own; fields that they name differently merge as a whole.
        if served.is_legacy() {
            return served.kind().into();
        }
        Self { group: served.group(), version: served.version(), kind: served.kind().info().name }
    }
}

impl From<object::Kind> for PatchTarget<'static> {
    fn from(kind: object::Kind) -> Self {
        let info = kind.info();
        Self { group: info.group, version: info.version, kind: info.name }
    }
}

/// Applies a patch body to the current object and returns the patched one.
///
/// The result is unchecked JSON: it may have unknown fields or wrong types.
pub fn apply_patch<'a>(
    target: impl Into<PatchTarget<'a>>,
    patch_type: PatchType,
    current: &Value,
    body: &[u8],
) -> Result<Value, PatchError> {
    if body.len() > MAX_PATCH_BYTES {
        return Err(PatchError::TooLarge(format!("limit is {MAX_PATCH_BYTES}")));
    }
    if patch_type == PatchType::Apply {
        return Err(PatchError::UnsupportedMediaType(PatchType::Apply.content_type().into()));
    }
    let patch: Value = serde_json::from_slice(body)
        .map_err(|e| PatchError::BadRequest(format!("error decoding patch: {e}")))?;
    apply_patch_value(target, patch_type, current, patch)
}

/// Applies a patch that is already a JSON value, such as those from controllers of this process.
pub fn apply_patch_value<'a>(
    target: impl Into<PatchTarget<'a>>,
    patch_type: PatchType,
    current: &Value,
    patch: Value,
) -> Result<Value, PatchError> {
    if too_deep(&patch, MAX_DEPTH) {
        return Err(PatchError::BadRequest("error decoding patch: nested too deep".into()));
    }
    let patched = match patch_type {
        PatchType::Json => json::apply(current, patch)?,
        PatchType::Merge => merge::apply(current, patch)?,
        PatchType::StrategicMerge => {
            let PatchTarget { group, version, kind } = target.into();
            let Some(root) = graph().root(group, version, kind) else {
                return Err(PatchError::UnsupportedMediaType(
                    PatchType::StrategicMerge.content_type().into(),
                ));
            };
            strategic::apply(root, current, patch)?
        }
        PatchType::Apply => {
            return Err(PatchError::UnsupportedMediaType(PatchType::Apply.content_type().into()));
        }
    };
    // `copy` and `add` of a JSON patch can nest deeper than any single document of a request.
    if too_deep(&patched, MAX_DEPTH) {
        return Err(PatchError::Unprocessable("the patched object is nested too deep".into()));
    }
    Ok(patched)
}

fn too_deep(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(elements) => levels == 0 || elements.iter().any(|e| too_deep(e, levels - 1)),
        Value::Object(entries) => levels == 0 || entries.values().any(|e| too_deep(e, levels - 1)),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
