//! Kubernetes' types as JSON values.

use serde::Serialize;
use serde_json::Value;

/// Returns an object or a part of one as JSON.
///
/// # Panics
/// If the value is no JSON: a map with other keys than text. Kubernetes' types have none.
pub fn json_of(value: impl Serialize) -> Value {
    serde_json::to_value(value).expect("Kubernetes' types are JSON")
}
