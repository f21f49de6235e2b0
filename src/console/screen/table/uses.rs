//! Whether a pod uses an object that its spec names: `u` on a ConfigMap, a Secret, a ServiceAccount or a claim.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Volume};

use crate::resource::ObjectRef;
use object::storage::claims_of;

/// Whether a pod of the object's namespace names it: in volumes, environments, pull secrets or as its account.
pub(super) fn uses(pod: &Pod, object: &ObjectRef) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let name = object.name.as_str();
    match &*object.kind.resource.plural {
        "configmaps" => maps(spec).any(|known| known == name),
        "secrets" => secrets(spec).any(|known| known == name),
        "serviceaccounts" => spec.service_account_name.as_deref().unwrap_or("default") == name,
        "persistentvolumeclaims" => claims_of(pod).any(|used| used.claim == name),
        _ => false,
    }
}

fn volumes(spec: &PodSpec) -> impl Iterator<Item = &Volume> {
    spec.volumes.iter().flatten()
}

/// Those that run before, beside and in debugging, as far as their environment goes.
fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.containers.iter().chain(spec.init_containers.iter().flatten())
}

fn maps(spec: &PodSpec) -> impl Iterator<Item = &str> {
    let of_volumes = volumes(spec).flat_map(|volume| {
        let projected = volume.projected.iter().flat_map(|all| all.sources.iter().flatten());
        let own = volume.config_map.iter().map(|map| map.name.as_str());
        own.chain(projected.filter_map(|source| source.config_map.as_ref().map(|map| map.name.as_str())))
    });
    let of_environments = containers(spec).flat_map(|container| {
        let whole = container.env_from.iter().flatten().filter_map(|from| from.config_map_ref.as_ref());
        let values = container.env.iter().flatten().filter_map(|one| one.value_from.as_ref());
        let keys = values.filter_map(|from| from.config_map_key_ref.as_ref());
        whole.map(|map| map.name.as_str()).chain(keys.map(|key| key.name.as_str()))
    });
    of_volumes.chain(of_environments)
}

fn secrets(spec: &PodSpec) -> impl Iterator<Item = &str> {
    let of_volumes = volumes(spec).flat_map(|volume| {
        let projected = volume.projected.iter().flat_map(|all| all.sources.iter().flatten());
        let own = volume.secret.iter().filter_map(|secret| secret.secret_name.as_deref());
        own.chain(projected.filter_map(|source| source.secret.as_ref().map(|secret| secret.name.as_str())))
    });
    let of_environments = containers(spec).flat_map(|container| {
        let whole = container.env_from.iter().flatten().filter_map(|from| from.secret_ref.as_ref());
        let values = container.env.iter().flatten().filter_map(|one| one.value_from.as_ref());
        let keys = values.filter_map(|from| from.secret_key_ref.as_ref());
        whole.map(|secret| secret.name.as_str()).chain(keys.map(|key| key.name.as_str()))
    });
    let pulled = spec.image_pull_secrets.iter().flatten().map(|secret| secret.name.as_str());
    of_volumes.chain(of_environments).chain(pulled)
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
                "volumes": [
                    {"name": "a", "configMap": {"name": "volume-map"}},
                    {"name": "b", "secret": {"secretName": "volume-secret"}},
                    {"name": "c", "projected": {"sources": [{"configMap": {"name": "projected-map"}}, {"secret": {"name": "projected-secret"}}]}},
                    {"name": "d", "persistentVolumeClaim": {"claimName": "disk"}},
                    {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}],
            },
        }))
        .expect("a pod");
        for (plural, names) in [
            ("configmaps", &["all-map", "key-map", "volume-map", "projected-map"][..]),
            ("secrets", &["pull", "all-secret", "key-secret", "volume-secret", "projected-secret"]),
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
