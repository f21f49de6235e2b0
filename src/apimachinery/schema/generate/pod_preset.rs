//! The schemas of PodPreset, which `k8s-openapi` does not have any more.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, Volume, VolumeMount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// The schema of [`object::pod_preset::PodPreset`].
pub(super) struct PodPreset;

struct PodPresetSpec;

impl JsonSchema for PodPreset {
    fn schema_name() -> Cow<'static, str> {
        "io.k8s.api.settings.v1alpha1.PodPreset".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "PodPreset is a policy resource that defines additional runtime requirements for a Pod.",
            "type": "object",
            "properties": {
                "apiVersion": described::<String>(
                    generator,
                    "The versioned schema of this representation of an object.",
                ),
                "kind": described::<String>(generator, "The REST resource this object represents."),
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
        json_schema!({
            "description": "PodPresetSpec is a description of a pod preset.",
            "type": "object",
            "properties": {
                "selector": generator.subschema_for::<LabelSelector>(),
                "env": described::<Vec<EnvVar>>(generator, "Variables to inject into containers."),
                "envFrom": described::<Vec<EnvFromSource>>(
                    generator,
                    "Sources of variables to inject into containers.",
                ),
                "volumes": described::<Vec<Volume>>(generator, "Volumes to inject into the pod."),
                "volumeMounts": described::<Vec<VolumeMount>>(
                    generator,
                    "Volume mounts to inject into containers.",
                ),
            },
        })
    }
}

/// Returns a type's schema with a description.
fn described<T: JsonSchema>(generator: &mut SchemaGenerator, description: &str) -> Schema {
    let mut described = json_schema!({"description": description});
    described.ensure_object().append(generator.subschema_for::<T>().ensure_object());
    described
}
