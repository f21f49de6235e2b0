//! Rust types of custom resources.
//!
//! A program that has a Rust type for a custom resource implements [`CustomKind`] for it
//! ([`custom_kind`](crate::custom_kind!)) and reads such objects like those of built-in kinds. The typed value is decoded
//! at its first use and shared by all holders of the object, since caches and the store share one object per revision.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::custom::CustomObject;
use super::encode;
use super::part;
use super::{Body, Kind, TypedKind};
use base::json;

/// The Rust type of a custom resource in its storage version. [`custom_kind`](crate::custom_kind!) implements the trait
/// for a type that is derived with `kube::CustomResource`. There may be one such type for each kind.
pub trait CustomKind:
    Clone + fmt::Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// The version, which is the storage version of the definition.
    const VERSION: &'static str;

    /// Returns the kind, which has a handle before its definition is stored.
    fn registered() -> Kind;
    /// Returns the metadata.
    fn object_meta(&self) -> &ObjectMeta;
    /// Returns the metadata, for changing.
    fn object_meta_mut(&mut self) -> &mut ObjectMeta;
}

/// Implements [`CustomKind`] for a type with a field `metadata`: `custom_kind!(Widget, "example.com", "v1", "widgets",
/// "Widget", Namespaced)`.
#[macro_export]
macro_rules! custom_kind {
    ($type:ty, $group:literal, $version:literal, $plural:literal, $name:literal, $scope:ident) => {
        impl $crate::CustomKind for $type {
            const VERSION: &'static str = $version;

            fn registered() -> $crate::Kind {
                static KIND: std::sync::LazyLock<$crate::Kind> = std::sync::LazyLock::new(|| {
                    $crate::Kind::custom($group, $plural, $name, $crate::Scope::$scope)
                        .expect("the program registers its own kinds before it reads definitions")
                });
                *KIND
            }

            fn object_meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn object_meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

impl<T: CustomKind> TypedKind for T {
    fn kind() -> Kind {
        T::registered()
    }

    fn version() -> &'static str {
        T::VERSION
    }

    fn metadata(&self) -> &ObjectMeta {
        self.object_meta()
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        self.object_meta_mut()
    }

    fn from_body(body: &Body) -> Option<&Self> {
        match body {
            Body::Custom(object) if object.kind() == T::registered() => object.typed(),
            _ => None,
        }
    }

    /// Changes only the metadata, spec or status that differ. In these, fields that the type does not have are lost.
    fn change_body<R>(body: &mut Body, change: impl FnOnce(&mut Self) -> R) -> Option<R> {
        let mut value = Self::from_body(body)?.clone();
        let before = value.clone();
        let result = change(&mut value);
        if value != before {
            let Body::Custom(object) = body else { return None };
            object.set_changes(&custom_object(&before), custom_object(&value));
        }
        Some(result)
    }

    fn into_body(self) -> Body {
        Body::Custom(Box::new(custom_object(&self)))
    }

    fn decode(value: Value) -> serde_json::Result<Self> {
        Ok(json::from_value(value)?)
    }

    fn to_value(&self) -> Value {
        part::to_value(self)
    }

    fn encode(&self) -> Vec<u8> {
        encode::text(self)
    }
}

fn custom_object<T: CustomKind>(value: &T) -> CustomObject {
    CustomObject::decode(T::registered(), part::to_value(value))
        .expect("a type of a kind is an object with an apiVersion")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Object;

    #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Gadget {
        api_version: String,
        metadata: ObjectMeta,
        size: u8,
    }

    custom_kind!(Gadget, "custom.test", "v1", "gadgets", "Gadget", Cluster);

    fn gadget(size: impl Into<Value>) -> Object {
        let value = json!({"apiVersion": "custom.test/v1", "metadata": {"name": "g"}, "size": size.into(), "other": 1});
        Object::from_value(Gadget::kind(), value).unwrap()
    }

    #[test]
    fn a_custom_object_is_read_as_its_type_and_decoded_once_api_7() {
        let object = gadget(3);
        let first: &Gadget = object.get().unwrap();
        assert_eq!((first.size, first.metadata.name.as_deref()), (3, Some("g")));
        assert!(std::ptr::eq(first, object.get::<Gadget>().unwrap()));
        assert!(gadget("large").get::<Gadget>().is_none());
        assert!(Object::new(k8s_openapi::api::core::v1::Pod::default()).get::<Gadget>().is_none());
        let again = Object::new(first.clone());
        assert_eq!((again.kind(), again.get::<Gadget>()), (Gadget::kind(), Some(first)));
    }

    #[test]
    fn a_change_of_the_typed_value_changes_the_object_api_7() {
        let mut object = gadget(3);
        let before = object.clone();
        assert_eq!(object.change(|gadget: &mut Gadget| gadget.size), Some(3));
        assert_eq!(object, before, "fields without a type stay if nothing changes");
        object.change(|gadget: &mut Gadget| gadget.size = 4).unwrap();
        assert_eq!((object.get::<Gadget>().unwrap().size, &object.to_value()["size"]), (4, &json!(4)));
        object.meta_mut().name = Some("h".into());
        assert_eq!(object.get::<Gadget>().unwrap().metadata.name.as_deref(), Some("h"));
        object.custom_mut().unwrap().fields.insert("size".into(), json!(5));
        assert_eq!(object.get::<Gadget>().unwrap().size, 5);
        assert_eq!(object.change(|_: &mut k8s_openapi::api::core::v1::Pod| ()), None);
    }
}
