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

use super::decoder::decode;

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
                decode(value)
            }

            fn to_value(&self) -> Value {
                to_value(self)
            }

            fn encode(&self) -> Vec<u8> {
                encode(self)
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

fn encode(value: &dyn erased_serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("API types have string keys and finite numbers")
}
