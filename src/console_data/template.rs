//! The pod template of an object of any kind, in the location that workloads use.

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::Value;

use super::resource::ObjectRef;
use super::store::Stores;
use object::ObjectPart as _;

/// Returns the stored object as JSON.
pub fn object(stores: &Stores, target: &ObjectRef) -> Option<Value> {
    Some(stores.object(&target.kind.resource, target.uid.as_ref()?)?.to_json())
}

/// Returns the spec in the object's pod template, if it has one.
pub fn pod_spec(object: &Value) -> Option<PodSpec> {
    PodSpec::decode(object.pointer("/spec/template/spec")?.clone()).ok()
}

/// Returns the desired number of replicas, if the object has `spec.replicas` as workloads do.
pub fn replicas(object: &Value) -> Option<i32> {
    object.pointer("/spec/replicas")?.as_i64()?.try_into().ok()
}
