//! Podium's own kinds (`podium.dev`) as custom resources, as any operator has them: Rust types, from which the
//! CustomResourceDefinitions are derived that each start applies.
//!
//! Architecture Invariant: the API server knows nothing of these kinds. Their schemas, columns and rules are those of
//! their definitions; if something cannot be expressed there, the extension API lacks it for other operators, too.
//! `cluster::own_definitions` applies them and tests their messages and columns.

#![expect(clippy::duplicated_attributes, reason = "each printer column has the same keywords")]

pub mod cluster_snapshot;
mod definition;
pub mod fault;
pub mod node_fence;
mod rules;
pub mod scenario;
mod schemas;

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use object::{Kind, Object, TypedKind};

use cluster_snapshot::{ClusterRestore, ClusterSnapshot};
use definition::definition;
use fault::Fault;
use node_fence::NodeFence;
use scenario::Scenario;

/// The group of Podium's own kinds.
pub const GROUP: &str = "podium.dev";

/// The definitions of all kinds, derived at their first use.
static DEFINITIONS: LazyLock<[CustomResourceDefinition; 5]> = LazyLock::new(|| {
    [
        definition::<ClusterSnapshot>(),
        definition::<ClusterRestore>(),
        definition::<Fault>(),
        definition::<NodeFence>(),
        definition::<Scenario>(),
    ]
});

/// Returns the definitions of all kinds.
pub fn definitions() -> &'static [CustomResourceDefinition] {
    &*DEFINITIONS
}

/// Returns true for an object of one of Podium's own kinds, and for the definition of such a kind.
pub fn owns(object: &Object) -> bool {
    let is_own = |group: &str| group == GROUP;
    match object.get::<CustomResourceDefinition>() {
        Some(definition) => is_own(&definition.spec.group),
        None => is_own(object.kind().info().group),
    }
}

/// Returns all kinds.
pub fn kinds() -> [Kind; 5] {
    [ClusterSnapshot::kind(), ClusterRestore::kind(), Fault::kind(), NodeFence::kind(), Scenario::kind()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_has_a_definition_with_its_names_api_14() {
        let definitions = definitions();
        assert_eq!(definitions.len(), kinds().len());
        for (kind, definition) in kinds().iter().zip(definitions) {
            let (info, names) = (kind.info(), &definition.spec.names);
            assert_eq!(definition.metadata.name, Some(info.qualified_plural()));
            assert_eq!((info.name, info.plural), (names.kind.as_str(), names.plural.as_str()));
            assert_eq!(info.namespaced(), definition.spec.scope == "Namespaced");
        }
    }

    #[test]
    fn definitions_and_objects_of_our_own_kinds_are_recognized_safe_8() {
        for definition in definitions() {
            assert!(owns(&Object::new(definition.clone())));
        }
        assert!(owns(&Object::new(NodeFence::default())));
        let other = json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Cluster",
            "names": {"kind": "Widget", "plural": "widgets"}, "versions": []}});
        assert!(!owns(&Object::new(CustomResourceDefinition::decode(other).unwrap())));
        assert!(!owns(&Object::new(k8s_openapi::api::core::v1::Pod::default())));
    }
}
