//! Kinds whose types are not in `k8s-openapi`: Podium's own (`podium.dev/v1alpha1`), and one that Kubernetes dropped.
//!
//! A type and its schema are declared once: doc comments are the descriptions in the schema.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

/// Declares a kind of version `v1alpha1` of a group: its scope, its plural, and the types of its spec and status.
macro_rules! own_kind {
    (
        $(#[doc = $about:literal])+
        $kind:ident $plural:literal, $group:literal $prefix:ident $scope:ident, $spec:ident $($status:ident)?
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
        #[serde(default)]
        pub struct $kind {
            /// Standard object metadata.
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// The desired state.
            pub spec: $spec,
            $(
                /// The observed state.
                pub status: Option<$status>,
            )?
        }

        impl k8s_openapi::Resource for $kind {
            const API_VERSION: &'static str = concat!($group, "/v1alpha1");
            const GROUP: &'static str = $group;
            const KIND: &'static str = stringify!($kind);
            const VERSION: &'static str = "v1alpha1";
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = k8s_openapi::$scope;
        }

        impl k8s_openapi::ListableResource for $kind {
            const LIST_KIND: &'static str = concat!(stringify!($kind), "List");
        }

        impl k8s_openapi::Metadata for $kind {
            type Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

            fn metadata(&self) -> &Self::Ty {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut Self::Ty {
                &mut self.metadata
            }
        }

        impl serde::Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use k8s_openapi::Resource as _;
                use serde::ser::SerializeStruct as _;
                let fields = 4 $(+ usize::from(Option::<$status>::is_some(&self.status)))?;
                let mut state = serializer.serialize_struct(Self::KIND, fields)?;
                state.serialize_field("apiVersion", Self::API_VERSION)?;
                state.serialize_field("kind", Self::KIND)?;
                state.serialize_field("metadata", &self.metadata)?;
                state.serialize_field("spec", &self.spec)?;
                $(
                    if let Some(status) = &self.status {
                        state.serialize_field::<$status>("status", status)?;
                    }
                )?
                state.end()
            }
        }

        impl schemars::JsonSchema for $kind {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                concat!("io.k8s.api.", stringify!($prefix), ".v1alpha1.", stringify!($kind)).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
                use $crate::podium_kind::described;
                schemars::json_schema!({
                    "description": concat!($($about),+).trim(),
                    "type": "object",
                    "properties": {
                        "apiVersion": described::<String>(
                            generator,
                            "The versioned schema of this representation of an object.",
                        ),
                        "kind": described::<String>(generator, "The REST resource this object represents."),
                        "metadata": generator.subschema_for::<ObjectMeta>(),
                        "spec": generator.subschema_for::<$spec>(),
                        $("status": generator.subschema_for::<$status>(),)?
                    },
                })
            }
        }
    };
}

/// Declares the types of a kind's fields. A field that is absent ([`Field::is_absent`]) is not written, `requires`
/// names the fields that the schema requires, and `as` is a function from the description to a field's schema that
/// differs from its type's.
macro_rules! own_types {
    ($prefix:ident $(
        $(#[doc = $about:literal])+
        $type:ident $(requires $($required:literal)+)? {$(
            $(#[doc = $description:literal])+
            $(#[serde(rename = $name:literal)])?
            $field:ident: $of:ty $(as $schema:ident)?,
        )*}
    )*) => {$(
        $(#[doc = $about])+
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $type {$(
            $(#[doc = $description])+
            #[serde($(rename = $name,)? skip_serializing_if = "crate::podium_kind::Field::is_absent")]
            pub $field: $of,
        )*}

        impl $crate::podium_kind::Field for $type {
            type Schema = Self;
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                concat!("io.k8s.api.", stringify!($prefix), ".v1alpha1.", stringify!($type)).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut properties = serde_json::Map::new();
                $(
                    let name = [$($name.to_owned(),)? $crate::podium_kind::json_name(stringify!($field))];
                    let description = concat!($($description),+).trim();
                    let schema = own_types!(@schema generator, description, $of $(as $schema)?);
                    properties.insert(name[0].clone(), schema.to_value());
                )*
                schemars::json_schema!({
                    "description": concat!($($about),+).trim(),
                    "type": "object",
                    "properties": properties,
                    $("required": [$($required),+],)?
                })
            }
        }
    )*};
    (@schema $generator:ident, $description:ident, $of:ty) => {
        $crate::podium_kind::described::<<$of as $crate::podium_kind::Field>::Schema>($generator, $description)
    };
    (@schema $generator:ident, $description:ident, $of:ty as $schema:ident) => {
        $schema($description)
    };
}

pub(super) use {own_kind, own_types};

/// The type of a field of [`own_types`].
pub(super) trait Field {
    /// The type in the schema, which has no `Option`.
    type Schema: JsonSchema;

    /// Returns true if the field is left out in JSON.
    fn is_absent(&self) -> bool {
        false
    }
}

impl<T: JsonSchema> Field for Option<T> {
    type Schema = T;

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: JsonSchema> Field for Vec<T> {
    type Schema = Self;

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl<T: JsonSchema> Field for BTreeMap<String, T> {
    type Schema = Self;

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl Field for String {
    type Schema = Self;

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

macro_rules! always_written {
    ($($type:ty),*) => {
        $(impl Field for $type {
            type Schema = Self;
        })*
    };
}
always_written!(bool, i32, i64, LabelSelector, Value);

/// Returns a type's schema with a description, unless the type has its own.
pub(super) fn described<T: JsonSchema>(generator: &mut SchemaGenerator, description: &str) -> Schema {
    let mut schema = generator.subschema_for::<T>();
    if schema.get("$ref").is_some() || schema.get("description").is_some() {
        return schema;
    }
    let mut described = json_schema!({"description": description});
    described.ensure_object().append(schema.ensure_object());
    described
}

/// Returns a field's name in JSON.
pub(super) fn json_name(field: &str) -> String {
    let mut words = field.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (head, tail) = word.split_at(word.len().min(1));
        name + &head.to_uppercase() + tail
    })
}
