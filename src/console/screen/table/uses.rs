//! Whether a pod uses an object that its spec names: `u` on a ConfigMap, a Secret, a ServiceAccount or a claim.

use k8s_openapi::api::core::v1::Pod;

use crate::resource::ObjectRef;
use object::pod::references::{config_maps, secrets};
use object::storage::claims_of;

/// Whether a pod of the object's namespace names it: in volumes, environments, pull secrets or as its account.
pub(super) fn uses(pod: &Pod, object: &ObjectRef) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let name = object.name.as_str();
    match &*object.kind.resource.plural {
        "configmaps" => config_maps(spec).any(|known| known == name),
        "secrets" => secrets(spec).any(|known| known == name),
        "serviceaccounts" => spec.service_account_name.as_deref().unwrap_or("default") == name,
        "persistentvolumeclaims" => claims_of(pod).any(|used| used.claim == name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::builtin;
    use crate::resource::{Kind, KindFacts, ResourceKey};

    fn object(plural: &str, name: &str) -> ObjectRef {
        let of = builtin::kind::<Pod>();
        let kind = Kind::new(KindFacts {
            resource: ResourceKey {
                group: "".into(),
                version: "v1".into(),
                plural: plural.to_owned().into(),
            },
            kind: plural.to_owned(),
            singular: plural.to_owned(),
            namespaced: of.namespaced,
            short_names: Vec::new(),
            verbs: of.verbs.clone(),
            subresources: std::collections::BTreeMap::new(),
        });
        ObjectRef { kind, namespace: Some("default".to_owned()), name: name.to_owned(), uid: None }
    }

    #[test]
    fn every_place_of_a_spec_that_names_it_counts_con_3() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "web"},
            "spec": {
                "imagePullSecrets": [{"name": "pull"}],
                "initContainers": [{"name": "i", "envFrom": [{"configMapRef": {"name": "all-map"}}, {"secretRef": {"name": "all-secret"}}]}],
                "containers": [{"name": "c", "env": [
                    {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "key-map", "key": "k"}}},
                    {"name": "B", "valueFrom": {"secretKeyRef": {"name": "key-secret", "key": "k"}}}]}],
                "ephemeralContainers": [{"name": "e", "envFrom": [{"secretRef": {"name": "debug-secret"}}]}],
                "volumes": [
                    {"name": "a", "configMap": {"name": "volume-map"}},
                    {"name": "b", "secret": {"secretName": "volume-secret"}},
                    {"name": "c", "projected": {"sources": [{"configMap": {"name": "projected-map"}}, {"secret": {"name": "projected-secret"}}]}},
                    {"name": "f", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "driver-secret"}}},
                    {"name": "d", "persistentVolumeClaim": {"claimName": "disk"}},
                    {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}],
            },
        }))
        .expect("a pod");
        for (plural, names) in [
            ("configmaps", &["all-map", "key-map", "volume-map", "projected-map"][..]),
            (
                "secrets",
                &[
                    "pull",
                    "all-secret",
                    "key-secret",
                    "volume-secret",
                    "projected-secret",
                    "debug-secret",
                    "driver-secret",
                ],
            ),
            ("persistentvolumeclaims", &["disk", "web-e"]),
            ("serviceaccounts", &["default"]),
        ] {
            for name in names {
                assert!(uses(&pod, &object(plural, name)), "{plural} {name}");
            }
            assert!(!uses(&pod, &object(plural, "other")), "{plural}");
        }
        assert!(!uses(&pod, &object("secrets", "all-map")), "a name of another kind is another");
    }
}
