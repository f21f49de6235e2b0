//! Fields that Kubernetes' encoding of an object always contains: structs that are not pointers. Writing them
//! without content makes no manager an owner.

use super::types::Type;
use apimachinery::schema::{Shape, TypeId, graph};

/// The fields that objects of every kind always contain, as far as the kind has them.
const OF_A_KIND: [&str; 6] = ["metadata", "spec", "status", "template", "involvedObject", "source"];

/// Types by the last part of their name, and the structs that they always contain.
const NESTED: &[(&str, &[&str])] = &[
    ("DeploymentSpec", &["template", "strategy"]),
    ("ReplicaSetSpec", &["template"]),
    ("StatefulSetSpec", &["template", "updateStrategy"]),
    ("DaemonSetSpec", &["template", "updateStrategy"]),
    ("JobSpec", &["template"]),
    ("CronJobSpec", &["jobTemplate"]),
    ("JobTemplateSpec", &["metadata", "spec"]),
    ("PodTemplateSpec", &["metadata", "spec"]),
    ("PodSpec", &[CONTAINERS]),
    ("PersistentVolumeClaimSpec", &["resources"]),
    ("HorizontalPodAutoscalerSpec", &["scaleTargetRef"]),
    ("ServiceStatus", &["loadBalancer"]),
    ("NodeStatus", &["daemonEndpoints", "nodeInfo"]),
    ("NodeDaemonEndpoints", &["kubeletEndpoint"]),
    ("CustomResourceDefinitionSpec", &["names"]),
    ("CustomResourceDefinitionStatus", &["acceptedNames"]),
];

/// The one list that is always present.
const CONTAINERS: &str = "containers";

/// The fields that are always present in one value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AlwaysEncoded(&'static [&'static str]);

impl AlwaysEncoded {
    /// Returns the fields that are always present in an object.
    pub(super) fn of_object(of: Type<'_>) -> Self {
        // In a custom resource only the metadata is always present.
        if let Type::Struct(_) = of { Self(&OF_A_KIND) } else { Self(&["metadata"]) }
    }

    /// If a field of this type is always present, returns the fields that are always present in it.
    pub(super) fn field(self, name: &str, of: Type<'_>) -> Option<Self> {
        if !self.0.contains(&name) {
            return None;
        }
        match of {
            Type::Shape(Shape::Object(id), _) => Some(Self::nested(*id)),
            Type::Shape(Shape::List(_), _) if name == CONTAINERS => Some(Self::default()),
            Type::Struct(_) => Some(Self::default()),
            _ => None,
        }
    }

    fn nested(id: TypeId) -> Self {
        let short = graph().get(id).short_name();
        NESTED.iter().find(|(of, _)| *of == short).map_or_else(Self::default, |(_, names)| Self(names))
    }
}
