//! Budgets of `policy/v1beta1`: an empty selector selects no pod, while in `policy/v1` it selects all pods.

use serde_json::{Value, json};

/// The label by which Kubernetes marks either meaning.
const KEY: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";

fn with(operator: &str) -> Value {
    json!({"matchExpressions": [{"key": KEY, "operator": operator}]})
}

pub(super) fn read(budget: &mut Value) {
    let Some(selector) = budget.pointer_mut("/spec/selector") else { return };
    if is_empty(selector) {
        *selector = with("Exists");
    } else if *selector == with("DoesNotExist") {
        *selector = json!({});
    }
}

pub(super) fn show(budget: &mut Value) {
    let Some(selector) = budget.pointer_mut("/spec/selector") else { return };
    if is_empty(selector) {
        *selector = with("DoesNotExist");
    } else if *selector == with("Exists") {
        *selector = json!({});
    }
}

/// Returns true for an empty selector, as opposed to an absent one.
fn is_empty(selector: &Value) -> bool {
    let is_blank =
        |part: &Value| part.is_null() || part == &json!({}) || part.as_array().is_some_and(Vec::is_empty);
    selector.as_object().is_some_and(|parts| parts.values().all(is_blank))
}
