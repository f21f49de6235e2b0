//! `settings.k8s.io/v1alpha1` PodPreset: settings injected into new pods that match a selector.
//!
//! Kubernetes dropped the kind in 1.20, so its type is written here, with the fields it had.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, Volume, VolumeMount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::{ListableResource, Metadata, NamespaceResourceScope, Resource};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

/// Injects additional runtime requirements into the pods of its namespace that it selects.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct PodPreset {
    /// Standard object metadata.
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
    /// The selection and the settings.
    #[serde(default)]
    pub spec: PodPresetSpec,
}

/// A description of a pod preset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodPresetSpec {
    /// Selects pods by their labels; required; an empty selector selects all pods.
    #[serde(default)]
    pub selector: LabelSelector,
    /// Variables to inject into containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<EnvVar>>,
    /// Sources of variables to inject into containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_from: Option<Vec<EnvFromSource>>,
    /// Volumes to inject into the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<Volume>>,
    /// Volume mounts to inject into containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_mounts: Option<Vec<VolumeMount>>,
}

impl Resource for PodPreset {
    const API_VERSION: &'static str = "settings.k8s.io/v1alpha1";
    const GROUP: &'static str = "settings.k8s.io";
    const KIND: &'static str = "PodPreset";
    const VERSION: &'static str = "v1alpha1";
    const URL_PATH_SEGMENT: &'static str = "podpresets";
    type Scope = NamespaceResourceScope;
}

impl ListableResource for PodPreset {
    const LIST_KIND: &'static str = "PodPresetList";
}

impl Metadata for PodPreset {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Serialize for PodPreset {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut state = serializer.serialize_struct(Self::KIND, 4)?;
        state.serialize_field("apiVersion", Self::API_VERSION)?;
        state.serialize_field("kind", Self::KIND)?;
        state.serialize_field("metadata", &self.metadata)?;
        state.serialize_field("spec", &self.spec)?;
        state.end()
    }
}

impl JsonSchema for PodPreset {
    fn schema_name() -> Cow<'static, str> {
        "io.k8s.api.settings.v1alpha1.PodPreset".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description":
                "PodPreset is a policy resource that defines additional runtime requirements for a Pod.",
            "type": "object",
            "properties": {
                "apiVersion": {
                    "description": "The versioned schema of this representation of an object.",
                    "type": "string",
                },
                "kind": {"description": "The REST resource this object represents.", "type": "string"},
                "metadata": generator.subschema_for::<ObjectMeta>(),
                "spec": generator.subschema_for::<PodPresetSpec>(),
            },
        })
    }
}

impl JsonSchema for PodPresetSpec {
    fn schema_name() -> Cow<'static, str> {
        "io.k8s.api.settings.v1alpha1.PodPresetSpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let list = |description: &str, items: Schema| json_schema!({"description": description, "type": "array", "items": items});
        json_schema!({
            "description": "PodPresetSpec is a description of a pod preset.",
            "type": "object",
            "properties": {
                "selector": generator.subschema_for::<LabelSelector>(),
                "env": list("Variables to inject into containers.", generator.subschema_for::<EnvVar>()),
                "envFrom": list(
                    "Sources of variables to inject into containers.",
                    generator.subschema_for::<EnvFromSource>(),
                ),
                "volumes": list("Volumes to inject into the pod.", generator.subschema_for::<Volume>()),
                "volumeMounts": list(
                    "Volume mounts to inject into containers.",
                    generator.subschema_for::<VolumeMount>(),
                ),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_preset_is_written_as_it_is_read_pp_1() {
        let value = json!({"apiVersion": "settings.k8s.io/v1alpha1", "kind": "PodPreset",
            "metadata": {"name": "allow-database", "namespace": "n"},
            "spec": {"selector": {"matchLabels": {"role": "frontend"}},
                "env": [{"name": "DB_PORT", "value": "6379"}],
                "envFrom": [{"configMapRef": {"name": "etcd-env-config"}}],
                "volumes": [{"name": "cache-volume", "emptyDir": {}}],
                "volumeMounts": [{"name": "cache-volume", "mountPath": "/cache"}]}});
        let preset: PodPreset = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&preset).unwrap(), value);
        let empty: PodPreset = serde_json::from_value(json!({"metadata": {}})).unwrap();
        assert_eq!(empty, PodPreset::default());
    }
}
