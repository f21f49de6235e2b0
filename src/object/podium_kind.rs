//! The common form of all kinds of `podium.dev/v1alpha1`: cluster-scoped, with a spec and a status.

use schemars::{Schema, json_schema};

/// Declares a kind of Podium's own: its type and names, the description in its schema, and the types of its spec and
/// status. The last two types must be `Default`, `Clone` and `PartialEq`, and have schemas.
macro_rules! own_kind {
    (
        $(#[$about:meta])*
        $kind:ident $name:literal $plural:literal $list:literal,
        $description:literal,
        $spec:ident: $spec_about:literal,
        $status:ident: $status_about:literal $(,)?
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
        pub struct $kind {
            /// Standard object metadata.
            #[serde(default)]
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            #[doc = $spec_about]
            #[serde(default)]
            pub spec: $spec,
            #[doc = $status_about]
            #[serde(default)]
            pub status: Option<$status>,
        }

        impl k8s_openapi::Resource for $kind {
            const API_VERSION: &'static str = "podium.dev/v1alpha1";
            const GROUP: &'static str = "podium.dev";
            const KIND: &'static str = $name;
            const VERSION: &'static str = "v1alpha1";
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = k8s_openapi::ClusterResourceScope;
        }

        impl k8s_openapi::ListableResource for $kind {
            const LIST_KIND: &'static str = $list;
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
                let fields = 4 + usize::from(self.status.is_some());
                let mut state = serializer.serialize_struct(Self::KIND, fields)?;
                state.serialize_field("apiVersion", Self::API_VERSION)?;
                state.serialize_field("kind", Self::KIND)?;
                state.serialize_field("metadata", &self.metadata)?;
                state.serialize_field("spec", &self.spec)?;
                if let Some(status) = &self.status {
                    state.serialize_field("status", status)?;
                }
                state.end()
            }
        }

        impl schemars::JsonSchema for $kind {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                concat!("io.k8s.api.podium.v1alpha1.", $name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
                use $crate::podium_kind::text;
                schemars::json_schema!({
                    "description": $description,
                    "type": "object",
                    "properties": {
                        "apiVersion": text("The versioned schema of this representation of an object."),
                        "kind": text("The REST resource this object represents."),
                        "metadata": generator.subschema_for::<ObjectMeta>(),
                        "spec": generator.subschema_for::<$spec>(),
                        "status": generator.subschema_for::<$status>(),
                    },
                })
            }
        }
    };
}

pub(super) use own_kind;

/// Returns the schema of a text.
pub(super) fn text(description: &str) -> Schema {
    json_schema!({"description": description, "type": "string"})
}

/// Returns the schema of a whole number.
pub(super) fn number(description: &str) -> Schema {
    json_schema!({"description": description, "type": "integer", "format": "int64"})
}

/// Returns the schema of a boolean.
pub(super) fn boolean(description: &str) -> Schema {
    json_schema!({"description": description, "type": "boolean"})
}
