//! Parts of objects as JSON.
//!
//! Each crate that uses generic code compiles it, and a pod template has a hundred types. These functions are
//! compiled once.

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaimSpec, PersistentVolumeSpec, PodSpec, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::Value;

use super::encode;
use base::json;

/// A type of the fields of objects.
pub trait ObjectPart: Sized {
    /// Reads the value from JSON.
    fn decode(value: Value) -> serde_json::Result<Self>;
    /// Returns the value as JSON.
    fn to_value(&self) -> Value;
    /// Returns the value's JSON text.
    fn encode(&self) -> Vec<u8>;
}

macro_rules! parts {
    ($($type:ty),* $(,)?) => {
        $(impl ObjectPart for $type {
            fn decode(value: Value) -> serde_json::Result<Self> {
                Ok(json::from_value(value)?)
            }

            fn to_value(&self) -> Value {
                to_value(self)
            }

            fn encode(&self) -> Vec<u8> {
                encode::text(self)
            }
        })*
    };
}

parts!(ObjectMeta, PersistentVolumeClaimSpec, PersistentVolumeSpec, PodSpec, PodTemplateSpec, Volume);

/// Returns an object or a part of one as JSON.
///
/// # Panics
/// If the value is no JSON: a map with other keys than text. Kubernetes' types have none.
pub fn json_of(value: impl Serialize) -> Value {
    to_value(&value)
}

/// Returns a value of the API as JSON.
pub(super) fn to_value(value: &dyn erased_serde::Serialize) -> Value {
    serde_json::to_value(value).expect("API types have string keys and finite numbers")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
    use serde::de::DeserializeOwned;
    use serde_json::json;

    use super::*;

    /// Compares the result and the error with those of `serde_json`.
    fn same<T: DeserializeOwned + PartialEq + std::fmt::Debug>(value: &Value) {
        let expected = serde_json::from_value::<T>(value.clone()).map_err(|error| error.to_string());
        let read = json::from_value::<T>(value.clone()).map_err(|error| error.to_string());
        assert_eq!(read, expected, "{value}");
    }

    #[test]
    fn objects_are_read_as_by_serde_json_api_5() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"b": "c"},
            "creationTimestamp": "2026-01-02T03:04:05Z", "ownerReferences": []}, "unknown": [{"x": [1, null]}],
            "spec": {"hostNetwork": true, "overhead": {"cpu": "1"}, "priority": -3, "volumes": null, "containers": [
                {"name": "c", "livenessProbe": {"httpGet": {"port": "web"}, "periodSeconds": 3}},
                {"name": "d", "livenessProbe": {"httpGet": {"port": 80}}, "env": [{"name": "E", "value": ""}]}]}});
        same::<Pod>(&pod);
        for (path, wrong) in [
            ("/apiVersion", json!("v2")),
            ("/kind", json!(null)),
            ("/metadata", json!("a")),
            ("/metadata/name", json!(7)),
            ("/metadata/labels", json!([["b", "c"]])),
            ("/metadata/labels/b", json!(null)),
            ("/metadata/creationTimestamp", json!("yesterday")),
            ("/metadata/ownerReferences", json!({})),
            ("/spec", json!(1.5)),
            ("/spec", json!([])),
            ("/spec/hostNetwork", json!("true")),
            ("/spec/priority", json!(4_000_000_000_u64)),
            ("/spec/priority", json!(-1.5)),
            ("/spec/containers", json!(true)),
            ("/spec/containers", json!(null)),
            ("/spec/containers/0", json!(-1)),
            ("/spec/containers/0", json!([1, 2])),
            ("/spec/containers/0/livenessProbe/httpGet/port", json!({})),
            ("/spec/containers/1/env/0", json!("E=x")),
        ] {
            let mut pod = pod.clone();
            *pod.pointer_mut(path).unwrap() = wrong;
            same::<Pod>(&pod);
        }
        same::<ConfigMap>(
            &json!({"data": {"a": "b", "c": ""}, "binaryData": {"d": "AAE="}, "immutable": false}),
        );
        same::<Secret>(&json!({"data": {"d": "?"}, "type": "Opaque"}));
        same::<Service>(
            &json!({"spec": {"ports": [{"port": 80, "targetPort": "web"}, {"port": 81, "targetPort": 1}]}}),
        );
        same::<Deployment>(
            &json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}}}}),
        );
        same::<JSONSchemaProps>(
            &json!({"type": "object", "maximum": 2.5, "maxLength": 3, "default": {"a": [1.0, null]},
            "enum": ["a", 1], "items": {"type": "string"}, "additionalProperties": true,
            "x-kubernetes-preserve-unknown-fields": true, "properties": {"p": {"$ref": "#"}}}),
        );
        same::<Pod>(&Value::Null);
    }
}
