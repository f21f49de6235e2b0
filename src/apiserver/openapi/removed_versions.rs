//! Schemas of the API versions that Kubernetes has removed. A version with the stored version's fields refers
//! to its types; a version with fields of its own is described only as an object, and clients leave
//! validation to the server.

use serde_json::{Map, Value, json};

use super::reference::REFERENCE;
use apimachinery::schema::roots;
use object::ServedKind;

/// A removed version of a kind.
#[derive(Clone, Copy)]
pub(super) struct RemovedVersion {
    served: ServedKind,
    root: &'static roots::Root,
}

impl RemovedVersion {
    /// Returns the version of a group, version and kind, if Kubernetes has removed it.
    pub(super) fn find(group: &str, version: &str, kind: &str) -> Option<Self> {
        let served = ServedKind::from_api_version(&format!("{group}/{version}"), kind)?;
        let info = served.kind().info();
        let root = roots::root_of(info.group, info.version, info.name).filter(|_| served.is_legacy())?;
        Some(Self { served, root })
    }

    /// Returns the name of the version's schema in Kubernetes: `io.k8s.api.extensions.v1beta1.Ingress`.
    pub(super) fn name(self) -> String {
        let stored = self.root.schema();
        // In the library's schema names, group, version and kind follow a common origin, such as
        // `io.k8s.api`.
        let from = stored.rsplitn(4, '.').nth(3).unwrap_or_default();
        let group = self.served.group().split('.').next().unwrap_or_default();
        format!("{from}.{group}.{}.{}", self.served.version(), self.root.kind)
    }

    /// Returns group, version and kind of the stored version.
    pub(super) fn stored(self) -> (&'static str, &'static str, &'static str) {
        (self.root.group, self.root.version, self.root.kind)
    }

    /// Returns the schema of the version, derived from that of the stored version in `schemas`.
    pub(super) fn schema(self, schemas: &Map<String, Value>) -> Value {
        let stored = schemas.get(&self.root.schema()).cloned().unwrap_or_default();
        if self.served.has_stored_fields() {
            return stored;
        }
        let mut properties = Map::new();
        for name in ["apiVersion", "kind"] {
            properties.insert(name.into(), stored["properties"][name].clone());
        }
        let metadata = format!("{REFERENCE}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
        properties.insert("metadata".into(), json!({"allOf": [{"$ref": metadata}], "default": {}}));
        json!({
            "description": stored["description"],
            "type": "object",
            "properties": properties,
            "x-kubernetes-preserve-unknown-fields": true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_have_the_names_of_their_time_api_18() {
        for (group, version, kind, expected) in [
            ("extensions", "v1beta1", "Ingress", Some("io.k8s.api.extensions.v1beta1.Ingress")),
            ("rbac.authorization.k8s.io", "v1alpha1", "Role", Some("io.k8s.api.rbac.v1alpha1.Role")),
            (
                "apiextensions.k8s.io",
                "v1beta1",
                "CustomResourceDefinition",
                Some(
                    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1beta1.CustomResourceDefinition",
                ),
            ),
            ("apps", "v1", "Deployment", None),
            ("autoscaling", "v1", "HorizontalPodAutoscaler", None),
        ] {
            assert_eq!(
                RemovedVersion::find(group, version, kind).map(RemovedVersion::name).as_deref(),
                expected,
                "{group}/{version}"
            );
        }
    }
}
