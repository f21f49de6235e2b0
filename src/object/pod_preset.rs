//! `settings.k8s.io/v1alpha1` PodPreset: settings injected into new pods that match a selector.
//!
//! Kubernetes dropped the kind in 1.20, so its type is written here, with the fields it had.

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, Volume, VolumeMount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::{ListableResource, Metadata, NamespaceResourceScope, Resource};
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// PodPreset is a policy resource that defines additional runtime requirements for a Pod.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(default)]
pub struct PodPreset {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// The desired state.
    pub spec: PodPresetSpec,
}

/// PodPresetSpec is a description of a pod preset.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodPresetSpec {
    /// Selects pods by their labels; required; an empty selector selects all pods.
    pub selector: LabelSelector,
    /// Variables to inject into containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<EnvVar>>,
    /// Sources of variables to inject into containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env_from: Option<Vec<EnvFromSource>>,
    /// Volumes to inject into the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<Volume>>,
    /// Volume mounts to inject into containers.
    #[serde(skip_serializing_if = "Option::is_none")]
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
