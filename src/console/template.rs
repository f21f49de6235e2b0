//! The pod template of an object of any kind, found where workloads have it.

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::Value;

use super::resource::ObjectRef;
use super::store::Stores;

/// The object as the console has it, as JSON.
pub(crate) fn object(stores: &Stores, target: &ObjectRef) -> Option<Value> {
    Some(stores.object(&target.kind.resource, target.uid.as_ref()?)?.to_json())
}

/// The spec of the pods that an object makes; none where it makes none.
pub(crate) fn pod_spec(object: &Value) -> Option<PodSpec> {
    serde_json::from_value(object.pointer("/spec/template/spec")?.clone()).ok()
}

/// How many pods it is to have, where its spec says that as workloads do.
pub(crate) fn replicas(object: &Value) -> Option<i32> {
    object.pointer("/spec/replicas")?.as_i64()?.try_into().ok()
}
