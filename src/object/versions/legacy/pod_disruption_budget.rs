//! Budgets of `policy/v1beta1`: an empty selector chose no pod, where the one of `policy/v1` chooses all.

use serde_json::{Value, json};

/// The label that Kubernetes says either with.
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

/// A selector that says nothing; one that is not given is another thing.
fn is_empty(selector: &Value) -> bool {
    let says_nothing =
        |part: &Value| part.is_null() || part == &json!({}) || part.as_array().is_some_and(Vec::is_empty);
    selector.as_object().is_some_and(|parts| parts.values().all(says_nothing))
}
