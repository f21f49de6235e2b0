//! What Kubernetes' encoding of an object always has, whether anything was said of it or not: structs that are no
//! pointers. Nobody comes to own them by writing something into them, so they are filled in before versions are
//! compared.

use serde_json::{Map, Value};

use super::types::Type;
use crate::schema::{Shape, TypeId, graph};

/// Of every kind, where it has them.
const OF_A_KIND: [&str; 6] = ["metadata", "spec", "status", "template", "involvedObject", "source"];

/// Types by the last part of their name, and the structs that are always there.
const NESTED: &[(&str, &[&str])] = &[
    ("DeploymentSpec", &["template", "strategy"]),
    ("ReplicaSetSpec", &["template"]),
    ("StatefulSetSpec", &["template", "updateStrategy"]),
    ("DaemonSetSpec", &["template", "updateStrategy"]),
    ("JobSpec", &["template"]),
    ("CronJobSpec", &["jobTemplate"]),
    ("JobTemplateSpec", &["metadata", "spec"]),
    ("PodTemplateSpec", &["metadata", "spec"]),
    ("PersistentVolumeClaimSpec", &["resources"]),
    ("HorizontalPodAutoscalerSpec", &["scaleTargetRef"]),
    ("ServiceStatus", &["loadBalancer"]),
    ("NodeStatus", &["daemonEndpoints", "nodeInfo"]),
    ("NodeDaemonEndpoints", &["kubeletEndpoint"]),
    ("CustomResourceDefinitionSpec", &["names"]),
    ("CustomResourceDefinitionStatus", &["acceptedNames"]),
];

/// The one list that is always there.
const CONTAINERS: (&str, &str) = ("PodSpec", "containers");

/// Fills in what is always there.
pub(crate) fn complete(of: Type<'_>, value: &mut Value) {
    if let (Type::Struct(id), Value::Object(fields)) = (of, value) {
        fill(id, &OF_A_KIND, fields);
    }
}

fn fill(id: TypeId, names: &[&str], fields: &mut Map<String, Value>) {
    let type_ = graph().get(id);
    if type_.short_name() == CONTAINERS.0 {
        fields.entry(CONTAINERS.1).or_insert(Value::Null);
    }
    for name in names {
        let Some(Shape::Object(below)) = type_.field(name).map(|field| &field.shape) else { continue };
        let value = fields.entry(*name).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(fields) = value {
            let short = graph().get(*below).short_name();
            let names = NESTED.iter().find(|(of, _)| *of == short).map_or(&[][..], |(_, names)| *names);
            fill(*below, names, fields);
        }
    }
}
