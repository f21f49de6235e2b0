//! The complete schemas of the API's types, with descriptions, for OpenAPI.
//!
//! The file `schemas.txt.gz` has a line for each type: the name of its schema, a space and the schema as JSON. The code
//! of `k8s-openapi` that builds these schemas is six megabytes and is built only with the feature `schemas`, for the test
//! that generates the file. Each call decompresses the file and parses only the schemas that it returns.

use std::collections::HashMap;
use std::io::Read as _;

use flate2::bufread::GzDecoder;
use serde_json::{Map, Value};

use super::roots::{DELETE_OPTIONS, Root};

const FILE: &[u8] = include_bytes!("schemas.txt.gz");

/// The start of a reference to a schema, as the file has it.
const REFERENCE: &str = "\"$ref\":\"#/components/schemas/";

/// Schemas that every document refers to.
const ALWAYS: [&str; 4] = [
    DELETE_OPTIONS,
    "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
];

/// Returns the schemas of the given roots and of everything they refer to.
pub fn schemas<'a>(roots: impl IntoIterator<Item = &'a Root>) -> Map<String, Value> {
    let names = roots.into_iter().map(Root::schema);
    schemas_of(names.chain(ALWAYS.map(String::from)).collect())
}

fn schemas_of(mut names: Vec<String>) -> Map<String, Value> {
    let text = text();
    let lines: HashMap<&str, &str> = text.lines().filter_map(|line| line.split_once(' ')).collect();
    let mut schemas = Map::new();
    while let Some(name) = names.pop() {
        if schemas.contains_key(&name) {
            continue;
        }
        let Some(json) = lines.get(&*name) else { continue };
        let references = json.split(REFERENCE).skip(1).filter_map(|rest| rest.split('"').next());
        names.extend(references.map(String::from));
        let schema = serde_json::from_str(json).expect("a test generates the file");
        schemas.insert(name, schema);
    }
    schemas
}

/// Decompresses the file.
pub(super) fn text() -> String {
    let mut text = String::new();
    GzDecoder::new(FILE).read_to_string(&mut text).expect("a test generates the file");
    text
}

/// Parses all schemas.
#[cfg(test)]
pub(super) fn all() -> Map<String, Value> {
    let text = text();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(name, json)| (name.to_owned(), serde_json::from_str(json).expect("a schema"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::roots::root_of;

    #[test]
    fn schemas_come_with_everything_they_refer_to_api_2() {
        let root = root_of("batch", "v1", "CronJob").expect("a kind");
        let (all, found) = (all(), schemas([root]));
        assert!(
            found.contains_key("io.k8s.api.core.v1.PodSpec")
                && !found.contains_key("io.k8s.api.core.v1.Node")
        );
        for (name, schema) in &found {
            assert_eq!(all.get(name), Some(schema), "{name}");
            each_reference(schema, &mut |name| assert!(found.contains_key(name), "{name}"));
        }
    }

    fn each_reference(schema: &Value, visit: &mut impl FnMut(&str)) {
        match schema {
            Value::Object(entries) => {
                if let Some(Value::String(reference)) = entries.get("$ref") {
                    visit(reference.rsplit('/').next().unwrap_or_default());
                }
                entries.values().for_each(|value| each_reference(value, visit));
            }
            Value::Array(items) => items.iter().for_each(|item| each_reference(item, visit)),
            _ => {}
        }
    }
}
