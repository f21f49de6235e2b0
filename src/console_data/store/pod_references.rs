//! The objects that a pod's spec refers to, for queries over all pods: the users of a ConfigMap, a Secret, a
//! ServiceAccount or a claim (`u`).
//!
//! The references stay unpacked, so that a query unpacks no pod; pods of one template share one set of references.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

use crate::resource::ResourceKey;
use object::pod::references::{config_maps, secrets};
use object::storage::claims_of;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum ReferenceKind {
    ConfigMap,
    Secret,
    ServiceAccount,
    Claim,
}

impl ReferenceKind {
    fn of(resource: &ResourceKey) -> Option<Self> {
        match &*resource.plural {
            _ if !resource.group.is_empty() => None,
            "configmaps" => Some(Self::ConfigMap),
            "secrets" => Some(Self::Secret),
            "serviceaccounts" => Some(Self::ServiceAccount),
            "persistentvolumeclaims" => Some(Self::Claim),
            _ => None,
        }
    }
}

/// The references of a pod in its volumes, environment, pull secrets and service account; all in its own namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodReferences(Box<[(ReferenceKind, Box<str>)]>);

impl PodReferences {
    /// Extracts the references of a pod.
    pub(super) fn of(pod: &Pod) -> Self {
        let Some(spec) = &pod.spec else { return Self::default() };
        let account = spec.service_account_name.as_deref().filter(|name| !name.is_empty());
        let mut all =
            BTreeSet::from([(ReferenceKind::ServiceAccount, Box::from(account.unwrap_or("default")))]);
        all.extend(config_maps(spec).map(|name| (ReferenceKind::ConfigMap, Box::from(name))));
        all.extend(secrets(spec).map(|name| (ReferenceKind::Secret, Box::from(name))));
        all.extend(claims_of(pod).map(|used| (ReferenceKind::Claim, used.claim.into_boxed_str())));
        Self(all.into_iter().collect())
    }

    /// Reports whether the pod refers to the object of this resource and name in its namespace.
    pub fn names(&self, resource: &ResourceKey, name: &str) -> bool {
        let Some(kind) = ReferenceKind::of(resource) else { return false };
        self.0.binary_search_by(|(sort, known)| (*sort, &**known).cmp(&(kind, name))).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resource(group: &str, plural: &str) -> ResourceKey {
        ResourceKey { group: group.to_owned().into(), version: "v1".into(), plural: plural.to_owned().into() }
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
        let uses = PodReferences::of(&pod);
        for (plural, names) in [
            ("configmaps", &["all-map", "key-map", "volume-map", "projected-map"][..]),
            (
                "secrets",
                &[
                    "pull", "all-secret", "key-secret", "volume-secret", "projected-secret", "debug-secret",
                    "driver-secret",
                ],
            ),
            ("persistentvolumeclaims", &["disk", "web-e"]),
            ("serviceaccounts", &["default"]),
        ] {
            for name in names {
                assert!(uses.names(&resource("", plural), name), "{plural} {name}");
            }
            assert!(!uses.names(&resource("", plural), "other"), "{plural}");
        }
        assert!(!uses.names(&resource("", "secrets"), "all-map"), "a name of another kind is another");
        assert!(!uses.names(&resource("vault.io", "secrets"), "pull"), "so is a kind of another group");
    }
}
