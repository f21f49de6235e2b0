//! The label selector of an object that selects pods, in the form of query parameters.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

/// Returns the label selector of a workload or a Service, in the form of query parameters.
pub(crate) fn selector_of(object: &Value) -> Option<String> {
    let selector = object.pointer("/spec/selector")?;
    let parsed = base::json::from_value(selector.clone()).ok();
    let structured = selector.get("matchLabels").is_some() || selector.get("matchExpressions").is_some();
    if structured {
        let field: LabelSelector = parsed?;
        return kube::core::Selector::try_from(field).ok().map(|selector| selector.to_string());
    }
    let pairs = selector.as_object()?.iter().map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    let pairs: Vec<String> = pairs.collect::<Option<_>>()?;
    (!pairs.is_empty()).then(|| pairs.join(","))
}
