//! Bindings of `rbac.authorization.k8s.io/v1alpha1`: a subject has a version beside its group.

use serde_json::Value;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn read_alpha(binding: &mut Value) {
    for subject in subjects(binding) {
        let Some(version) = subject.remove("apiVersion") else { continue };
        let group = version.as_str().and_then(|text| text.split_once('/')).map(|(group, _)| group);
        if let Some(group) = group.filter(|group| !group.is_empty()) {
            subject.insert("apiGroup".into(), group.into());
        }
    }
}

pub(super) fn show_alpha(binding: &mut Value) {
    for subject in subjects(binding) {
        if let Some(group) = subject.remove("apiGroup") {
            let known = group.as_str() == Some(GROUP);
            let version = if known { "v1alpha1" } else { "v1" };
            let text = group.as_str().filter(|text| !text.is_empty()).map(|text| format!("{text}/{version}"));
            subject.extend(text.map(|text| ("apiVersion".to_string(), text.into())));
        }
    }
}

fn subjects(binding: &mut Value) -> impl Iterator<Item = &mut serde_json::Map<String, Value>> {
    let list = binding.get_mut("subjects").and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}
