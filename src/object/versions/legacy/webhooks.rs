//! Webhooks of `admissionregistration.k8s.io/v1beta1`: by default they ignore failures, have a longer timeout, match
//! only exactly what their rules name, and use the old review version.

use serde_json::{Value, json};

use super::default;

pub(super) fn read(configuration: &mut Value) {
    let list = configuration.get_mut("webhooks").and_then(Value::as_array_mut);
    for webhook in list.into_iter().flatten().filter_map(Value::as_object_mut) {
        default(webhook, "failurePolicy", "Ignore".into());
        default(webhook, "matchPolicy", "Exact".into());
        default(webhook, "timeoutSeconds", 30.into());
        default(webhook, "sideEffects", "Unknown".into());
        default(webhook, "admissionReviewVersions", json!(["v1beta1"]));
    }
}
