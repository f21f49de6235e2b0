//! Typed objects of responses. [`TypedKind::decode`] reads them, so that this crate contains no code of its own for the
//! fields of Kubernetes' types: that code was a quarter of the crate.

use std::borrow::Cow;
use std::ops::Deref;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::{Attach, Execute, Log, Portforward};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use object::TypedKind;

/// An object of a response.
#[derive(Clone, Debug)]
pub(crate) struct DecodedObject<K>(pub(crate) K);

impl<K> Deref for DecodedObject<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.0
    }
}

impl<'de, K: TypedKind> Deserialize<'de> for DecodedObject<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        K::decode(value).map(Self).map_err(D::Error::custom)
    }
}

impl<K: Resource> Resource for DecodedObject<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

impl Attach for DecodedObject<Pod> {}
impl Execute for DecodedObject<Pod> {}
impl Log for DecodedObject<Pod> {}
impl Portforward for DecodedObject<Pod> {}

/// Reads an object from its JSON text.
pub(crate) fn from_slice<K: TypedKind>(text: &[u8]) -> serde_json::Result<K> {
    K::decode(serde_json::from_slice(text)?)
}

/// Reads the objects of a list from its JSON text.
pub(crate) fn list_from_str<K: TypedKind>(text: &str) -> serde_json::Result<Vec<K>> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<Value>,
    }
    let list: List = serde_json::from_str(text)?;
    list.items.into_iter().map(K::decode).collect()
}
