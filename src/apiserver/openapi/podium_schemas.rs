//! The schemas of resources without a type in the library: metrics, and Podium's own kinds.
//!
//! `podium_schemas.txt` has a section for each object: `= NAME DESCRIPTION`, then a line for each property, `NAME TYPE
//! DESCRIPTION`. `+ NAME` stands for the properties of another section. A type is a scalar, a section or, in brackets, a
//! list of either. The section of a kind has the name of its schema.

use serde_json::{Map, Value, json};

use super::reference::REFERENCE;
use crate::{metrics, verdicts};

const TEXT: &str = include_str!("podium_schemas.txt");
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Returns the name and content of a kind's schema.
pub(super) fn schema(group: &str, version: &str, kind: &str) -> Option<(String, Value)> {
    let name = match (group, version) {
        (metrics::GROUP, metrics::VERSION) => format!("io.k8s.metrics.pkg.apis.metrics.v1beta1.{kind}"),
        (verdicts::GROUP, verdicts::VERSION) => format!("dev.podium.v1alpha1.{kind}"),
        _ => return None,
    };
    let schema = object(&name)?;
    Some((name, schema))
}

fn object(section_name: &str) -> Option<Value> {
    let (description, properties) = section(section_name)?;
    Some(json!({"description": description, "type": "object", "properties": properties}))
}

/// Returns a section's description and properties.
fn section(name: &str) -> Option<(&'static str, Map<String, Value>)> {
    let text = TEXT.split("\n= ").find_map(|text| text.strip_prefix(name)?.strip_prefix(' '))?;
    let (description, lines) = text.split_once('\n')?;
    let mut properties = Map::new();
    for line in lines.lines() {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        match words[..] {
            ["+", other] => properties.extend(section(other).expect("there is a section of this name").1),
            [name, type_, description] => {
                let mut property = value(type_);
                property["description"] = description.into();
                properties.insert(name.into(), property);
            }
            _ => debug_assert!(line.is_empty(), "{line}"),
        }
    }
    Some((description, properties))
}

/// Returns the schema of a type; that of an object has the description of its section.
fn value(type_: &str) -> Value {
    match type_ {
        "string" => json!({"type": "string"}),
        "time" => json!({"type": "string", "format": "date-time"}),
        "integer" => json!({"type": "integer"}),
        "int64" => json!({"type": "integer", "format": "int64"}),
        "quantities" => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        "ObjectMeta" => json!({"default": {}, "allOf": [{"$ref": format!("{REFERENCE}{OBJECT_META}")}]}),
        list if list.starts_with('[') => {
            let items = value(list.trim_matches(['[', ']']));
            json!({"type": "array", "items": items, "x-kubernetes-list-type": "atomic"})
        }
        name => object(name).expect("there is a section of this name"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_of_the_table_is_a_schema_api_6() {
        for text in TEXT.split("\n= ").skip(1) {
            let (name, _) = text.split_once(' ').unwrap();
            let schema = object(name).unwrap();
            assert!(
                schema["properties"].as_object().is_some_and(|properties| !properties.is_empty()),
                "{name}"
            );
        }
        for (group, version, kind) in [
            ("podium.dev", "v1alpha1", "SchedulingVerdict"),
            ("podium.dev", "v1alpha1", "Controller"),
            ("podium.dev", "v1alpha1", "ControllerStep"),
            ("metrics.k8s.io", "v1beta1", "NodeMetrics"),
            ("metrics.k8s.io", "v1beta1", "PodMetrics"),
        ] {
            assert!(schema(group, version, kind).is_some(), "{kind}");
        }
        assert_eq!(schema("podium.dev", "v1alpha1", "Hint"), None);
    }
}
