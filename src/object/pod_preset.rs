//! `settings.k8s.io/v1alpha1` PodPreset: settings injected into new pods that match a selector.
//!
//! Kubernetes dropped the kind in 1.20, so its type is written here, with the fields it had.

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, Volume, VolumeMount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::podium_kind::{own_kind, own_types};

own_kind! {
    /// PodPreset is a policy resource that defines additional runtime requirements for a Pod.
    PodPreset "podpresets", "settings.k8s.io" settings NamespaceResourceScope, PodPresetSpec
}

own_types! { settings
    /// PodPresetSpec is a description of a pod preset.
    PodPresetSpec {
        /// Selects pods by their labels; required; an empty selector selects all pods.
        selector: LabelSelector,
        /// Variables to inject into containers.
        env: Option<Vec<EnvVar>>,
        /// Sources of variables to inject into containers.
        env_from: Option<Vec<EnvFromSource>>,
        /// Volumes to inject into the pod.
        volumes: Option<Vec<Volume>>,
        /// Volume mounts to inject into containers.
        volume_mounts: Option<Vec<VolumeMount>>,
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
