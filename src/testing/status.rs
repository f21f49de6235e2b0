//! A failure in the format of the API.

use serde_json::{Value, json};

/// Returns the `Status` object of a failure.
pub(super) fn status(code: u16, reason: &str, message: &str, details: &Value) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "details": details, "code": code})
}
