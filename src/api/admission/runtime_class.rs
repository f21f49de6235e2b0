//! RuntimeClass: a pod's class must exist, and sets the pod's overhead and the nodes with that runtime.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodSpec, Toleration};
use k8s_openapi::api::node::v1::{Overhead, RuntimeClass, Scheduling};

use super::Request;
use crate::{Api, ApiError};
use base::quote::quote;
use object::quantity::{Amount, ResourceList};
use object::{Key, Kind, Object, SharedObject};

const OTHER_OVERHEAD: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
const NO_OVERHEAD: &str =
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";

/// Sets a pod's fields from its class.
pub(super) fn admit(request: &mut Request<'_>, object: &mut Object) -> Result<(), ApiError> {
    let name = object.name().to_string();
    let Some(spec) = object.get_mut::<Pod>().and_then(|pod| pod.spec.as_mut()) else { return Ok(()) };
    let filled = class_of(request.api, spec).and_then(|class| match class {
        Some(class) => fill(spec, &class),
        None => Ok(()),
    });
    filled.map_err(|why| ApiError::forbidden(Kind::Pod, &name, why))
}

/// Refuses a pod whose overhead differs from its class's.
pub(super) fn validate(request: &Request<'_>, object: &Object) -> Result<(), ApiError> {
    let Some(spec) = object.get::<Pod>().and_then(|pod| pod.spec.as_ref()) else { return Ok(()) };
    let own = spec.overhead.as_ref().filter(|own| !own.is_empty());
    let result = class_of(request.api, spec).and_then(|class| {
        match (fixed(class.as_deref().and_then(|class| class.overhead.as_ref())), own) {
            (Some(fixed), own) if own.is_some_and(|own| same(fixed, own)) => Ok(()),
            (Some(_), _) => Err(OTHER_OVERHEAD.to_string()),
            (None, Some(_)) => Err(NO_OVERHEAD.to_string()),
            (None, None) => Ok(()),
        }
    });
    result.map_err(|why| ApiError::forbidden(Kind::Pod, object.name(), why))
}

fn class_of(api: &Api, spec: &PodSpec) -> Result<Option<SharedObject<RuntimeClass>>, String> {
    let Some(name) = spec.runtime_class_name.as_ref().filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let class = api.get_as::<RuntimeClass>(&Key::new("", name));
    class.map(Some).map_err(|_| format!("pod rejected: RuntimeClass {} not found", quote(name)))
}

fn fill(spec: &mut PodSpec, class: &RuntimeClass) -> Result<(), String> {
    if let Some(fixed) = fixed(class.overhead.as_ref()) {
        let own = spec.overhead.as_ref().filter(|own| !own.is_empty());
        if own.is_some_and(|own| !same(fixed, own)) {
            return Err(OTHER_OVERHEAD.to_string());
        }
        spec.overhead = Some(fixed.clone());
    }
    let Some(Scheduling { node_selector, tolerations }) = &class.scheduling else { return Ok(()) };
    if let Some(required) = node_selector.as_ref().filter(|required| !required.is_empty()) {
        select_nodes(spec.node_selector.get_or_insert_default(), required)?;
    }
    if let Some(tolerations) = tolerations.as_ref().filter(|list| !list.is_empty()) {
        let mut all = spec.tolerations.take().unwrap_or_default();
        all.extend(tolerations.iter().cloned());
        spec.tolerations = Some(merged(&all));
    }
    Ok(())
}

/// Returns the overhead of a class, if it has any.
fn fixed(overhead: Option<&Overhead>) -> Option<&ResourceList> {
    overhead.and_then(|overhead| overhead.pod_fixed.as_ref()).filter(|fixed| !fixed.is_empty())
}

fn same(a: &ResourceList, b: &ResourceList) -> bool {
    let amount =
        |list: &ResourceList, name: &str| list.get(name).and_then(|text| Amount::parse(&text.0).ok());
    a.len() == b.len() && a.keys().all(|name| b.contains_key(name) && amount(a, name) == amount(b, name))
}

fn select_nodes(
    own: &mut BTreeMap<String, String>,
    required: &BTreeMap<String, String>,
) -> Result<(), String> {
    for (key, value) in required {
        match own.get(key) {
            Some(other) if other != value => {
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {other}"
                ));
            }
            _ => own.insert(key.clone(), value.clone()),
        };
    }
    Ok(())
}

/// Returns the tolerations without those that another one includes; of equal ones, the first stays.
fn merged(all: &[Toleration]) -> Vec<Toleration> {
    let mut retained: Vec<Toleration> = Vec::new();
    for (i, one) in all.iter().enumerate() {
        let by_later = all[i + 1..].iter().any(|other| other != one && includes(other, one));
        if !by_later && !retained.iter().any(|other| includes(other, one)) {
            retained.push(one.clone());
        }
    }
    retained
}

/// Returns true if the first tolerates everything that the second does.
fn includes(all: &Toleration, one: &Toleration) -> bool {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (operator, effect) = (text(&all.operator), text(&all.effect));
    let any_key = text(&all.key).is_empty() && operator == "Exists";
    if all == one {
        return true;
    }
    if text(&one.key) != text(&all.key) && !any_key {
        return false;
    }
    if !effect.is_empty() && text(&one.effect) != effect {
        return false;
    }
    if effect == "NoExecute"
        && let Some(seconds) = all.toleration_seconds
        && one.toleration_seconds.is_none_or(|own| own > seconds)
    {
        return false;
    }
    match operator.as_str() {
        "" | "Equal" => {
            matches!(text(&one.operator).as_str(), "" | "Equal") && text(&one.value) == text(&all.value)
        }
        other => other == "Exists",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::test_api::api;
    use object::Object;

    /// Regression: a pod that requested gVisor ran without it.
    #[tokio::test(start_paused = true)]
    async fn a_pod_of_a_runtime_class_that_is_not_there_is_refused_api_17() {
        let api = api(&["default"]);
        let made = |extra: Value| {
            let mut pod = json!({"metadata": {"name": "p", "namespace": "default"},
                "spec": {"containers": [{"name": "c", "image": "x"}]}});
            pod["spec"].as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(pod).unwrap();
            api.create_as(pod).map(drop).map_err(|error| (error.code(), error.to_string()))
        };
        let refused = |reason: &str| Err((403, format!("pods \"p\" is forbidden: pod rejected: {reason}")));
        assert_eq!(made(json!({"runtimeClassName": "gvisor"})), refused("RuntimeClass \"gvisor\" not found"));
        assert_eq!(
            made(json!({"overhead": {"cpu": "1"}})),
            refused("Pod Overhead set without corresponding RuntimeClass defined Overhead")
        );
        assert_eq!(made(json!({"runtimeClassName": ""})), Ok(()));
    }

    /// API-17: as Kubernetes' plugin of this name.
    #[tokio::test(start_paused = true)]
    async fn a_pod_is_filled_from_its_runtime_class_and_what_contradicts_it_is_refused_api_17() {
        let api = api(&["default"]);
        let make = |value: Value| {
            api.create(Object::from_any_value(value).unwrap(), &crate::WriteOptions::default())
        };
        make(json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"}, "handler": "kata",
            "overhead": {"podFixed": {"cpu": 0.25, "memory": "64Mi"}},
            "scheduling": {"nodeSelector": {"runtime": "kata"}, "tolerations": [
                {"key": "kata", "operator": "Exists"}, {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}]}}))
        .unwrap();
        make(json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "runc"}, "handler": "runc"}))
            .unwrap();
        let pod = |name: &str, class: &str, extra: Value| {
            let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
                "spec": {"runtimeClassName": class, "containers": [{"name": "c", "image": "x"}]}});
            pod["spec"].as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            make(pod).map(|pod| pod.to_value()).map_err(|error| error.to_string())
        };
        let own = json!([{"key": "kata", "operator": "Equal", "value": "x"},
            {"key": "a", "operator": "Exists", "effect": "NoSchedule"}]);
        let made = pod("p", "kata", json!({"nodeSelector": {"disk": "ssd"}, "tolerations": own})).unwrap();
        assert_eq!(made["spec"]["overhead"], json!({"cpu": "250m", "memory": "64Mi"}));
        assert_eq!(made["spec"]["nodeSelector"], json!({"disk": "ssd", "runtime": "kata"}));
        let retained = made["spec"]["tolerations"].as_array().unwrap().iter();
        let retained: Vec<_> = retained.filter(|t| t["effect"] != "NoExecute").collect();
        assert_eq!(
            retained,
            [
                &json!({"key": "a", "operator": "Exists", "effect": "NoSchedule"}),
                &json!({"key": "kata", "operator": "Exists"})
            ]
        );
        // The same amount in another notation is equal.
        pod("q", "kata", json!({"overhead": {"cpu": "0.25", "memory": "64Mi"}})).unwrap();
        pod("r", "runc", json!({})).unwrap();
        for (class, extra, why) in [
            ("kata", json!({"overhead": {"cpu": "1"}}), super::OTHER_OVERHEAD),
            ("runc", json!({"overhead": {"cpu": "1"}}), super::NO_OVERHEAD),
            (
                "kata",
                json!({"nodeSelector": {"runtime": "runc"}}),
                "conflict: runtimeClass.scheduling.nodeSelector[runtime] = kata; pod.spec.nodeSelector[runtime] = runc",
            ),
        ] {
            assert_eq!(pod("s", class, extra).unwrap_err(), format!("pods \"s\" is forbidden: {why}"));
        }
    }
}
