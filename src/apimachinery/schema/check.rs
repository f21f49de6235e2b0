//! Compares a JSON document with its type: reports unknown fields and values of wrong types.
//!
//! It never decodes and never changes the document; the server decides by `fieldValidation` if a finding
//! refuses the request, causes a warning or is ignored.

use std::fmt::{self, Write as _};

use serde_json::Value;

use super::graph::{ObjectType, Scalar, Shape, TypeId, graph};
use super::{DuplicateFields, MAX_DEPTH};
use base::quote::quote;

/// The limit on reported findings of each type.
const MAX_REPORTED: usize = 32;

/// A value that its field cannot hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeMismatch {
    /// The path: `spec.template.spec.containers[0].ports[0].containerPort`.
    pub path: String,
    /// The Go type and field path Kubernetes names, e.g. `DeploymentSpec.spec.replicas`.
    pub field: String,
    /// The Go type the field has, e.g. `int32`.
    pub expected: String,
    /// The type in the document: `string`, `number`, `number 1.5`, `bool`, `array`, `object`.
    pub actual: String,
}

impl fmt::Display for TypeMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, expected, actual: found, .. } = self;
        write!(f, "json: cannot unmarshal {found} into Go struct field {field} of type {expected}")
    }
}

/// The findings in a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaReport {
    /// Paths of fields the type does not have, e.g. `spec.template.spec.containers[0].imagee`.
    pub unknown: Vec<String>,
    /// Values of a wrong type.
    pub mistyped: Vec<TypeMismatch>,
}

impl SchemaReport {
    /// Returns `strict decoding error: unknown field "spec.replicaz", duplicate field "…"`; `None` without
    /// findings.
    pub fn strict_error(&self, duplicates: &DuplicateFields) -> Option<String> {
        let findings: Vec<String> =
            duplicates.strict_errors().into_iter().chain(self.unknown_fields()).collect();
        (!findings.is_empty()).then(|| format!("strict decoding error: {}", findings.join(", ")))
    }

    /// Returns one text per finding, for `Warning` headers: `unknown field "spec.replicaz"`.
    pub fn findings<'a>(&'a self, duplicates: &DuplicateFields) -> impl Iterator<Item = String> + use<'a> {
        duplicates.findings().into_iter().chain(self.unknown_fields())
    }

    fn unknown_fields(&self) -> impl Iterator<Item = String> + '_ {
        self.unknown.iter().map(|path| format!("unknown field {}", quote(path)))
    }
}

/// Checks a document against the type of a kind; a kind without a type (a custom resource) passes.
pub fn schema_check(group: &str, version: &str, kind: &str, document: &Value) -> SchemaReport {
    graph().root(group, version, kind).map(|root| check_type(root, document)).unwrap_or_default()
}

/// Checks a document against a type.
pub fn check_type(root: TypeId, document: &Value) -> SchemaReport {
    let mut walk =
        TypeChecker { path: String::new(), fields: String::new(), report: SchemaReport::default() };
    let holder = graph().get(root).short_name();
    walk.value(&Shape::Object(root), document, holder, 0);
    walk.report
}

struct TypeChecker {
    /// The path of the current value with list indexes, for messages.
    path: String,
    /// The path without list indexes, as Go's decoder reports it.
    fields: String,
    report: SchemaReport,
}

impl TypeChecker {
    fn value(&mut self, shape: &Shape, value: &Value, holder: &str, depth: usize) {
        if depth > MAX_DEPTH || value.is_null() {
            return;
        }
        match (shape, value) {
            (Shape::Any, _) => {}
            (Shape::Object(id), Value::Object(entries)) => {
                let object = graph().get(*id);
                for (name, entry) in entries {
                    self.entry(object, name, entry, depth);
                }
            }
            (Shape::Map(values), Value::Object(entries)) => {
                for (name, entry) in entries {
                    self.below(name, |walk| walk.value(values, entry, holder, depth + 1));
                }
            }
            (Shape::List(items), Value::Array(elements)) => {
                for (index, element) in elements.iter().enumerate() {
                    let length = self.path.len();
                    let _ = write!(self.path, "[{index}]");
                    self.value(items, element, holder, depth + 1);
                    self.path.truncate(length);
                }
            }
            (Shape::Scalar(scalar), value) if scalar_fits(*scalar, value) => {}
            _ => self.mistyped(shape, value, holder),
        }
    }

    fn entry(&mut self, object: &ObjectType, name: &str, entry: &Value, depth: usize) {
        self.below(name, |walk| match object.field(name) {
            Some(field) => {
                walk.value(&field.shape_of(object, entry), entry, object.short_name(), depth + 1);
            }
            None if walk.report.unknown.len() < MAX_REPORTED => walk.report.unknown.push(walk.path.clone()),
            None => {}
        });
    }

    fn below(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        let lengths = (self.path.len(), self.fields.len());
        for text in [&mut self.path, &mut self.fields] {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(name);
        }
        inside(self);
        self.path.truncate(lengths.0);
        self.fields.truncate(lengths.1);
    }

    fn mistyped(&mut self, shape: &Shape, value: &Value, holder: &str) {
        if self.report.mistyped.len() < MAX_REPORTED {
            self.report.mistyped.push(TypeMismatch {
                path: self.path.clone(),
                field: if self.fields.is_empty() {
                    holder.to_string()
                } else {
                    format!("{holder}.{}", self.fields)
                },
                expected: go_type(shape),
                actual: type_name(shape, value),
            });
        }
    }
}

fn scalar_fits(scalar: Scalar, value: &Value) -> bool {
    match scalar {
        Scalar::String | Scalar::Bytes | Scalar::Time | Scalar::MicroTime => value.is_string(),
        Scalar::Int32 => value.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
        Scalar::Int64 => value.is_i64(),
        Scalar::Double => value.is_number(),
        Scalar::Bool => value.is_boolean(),
        Scalar::IntOrString => value.is_string() || value.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
        Scalar::Quantity => value.is_string() || value.is_number(),
    }
}

fn go_type(shape: &Shape) -> String {
    match shape {
        Shape::Any => "interface {}".into(),
        Shape::Scalar(scalar) => match scalar {
            Scalar::String => "string",
            Scalar::Bytes => "[]uint8",
            Scalar::Time => "v1.Time",
            Scalar::MicroTime => "v1.MicroTime",
            Scalar::Int32 | Scalar::IntOrString => "int32",
            Scalar::Int64 => "int64",
            Scalar::Double => "float64",
            Scalar::Bool => "bool",
            Scalar::Quantity => "resource.Quantity",
        }
        .into(),
        Shape::Object(id) => {
            let name = graph().get(*id).name;
            let mut parts = name.rsplit('.');
            match (parts.next(), parts.next()) {
                (Some(ty), Some(package)) => format!("{package}.{ty}"),
                _ => name.to_string(),
            }
        }
        Shape::List(items) => format!("[]{}", go_type(items)),
        Shape::Map(values) => format!("map[string]{}", go_type(values)),
    }
}

fn type_name(shape: &Shape, value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(n) if matches!(shape, Shape::Scalar(Scalar::Int32 | Scalar::Int64)) => {
            format!("number {n}")
        }
        Value::Number(_) => "number".into(),
        Value::String(_) => "string".into(),
        Value::Array(_) => "array".into(),
        Value::Object(_) => "object".into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_are_named_by_path_api_2() {
        let cases = [
            (
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"labels": {"any": "x"}}}),
                vec![],
            ),
            (json!({"spec": {"replicaz": 3}}), vec!["spec.replicaz"]),
            (
                json!({"spec": {"template": {"spec": {"containers": [{"name": "a"}, {"imagee": "x"}]}}}, "speck": 1}),
                vec!["spec.template.spec.containers[1].imagee", "speck"],
            ),
        ];
        for (document, expect) in cases {
            let report = schema_check("apps", "v1", "Deployment", &document);
            assert_eq!(report.unknown, expect, "{document}");
            assert_eq!(report.mistyped, []);
        }
        let report = schema_check("apps", "v1", "Deployment", &json!({"spec": {"replicaz": 3}}));
        assert_eq!(
            report.strict_error(&DuplicateFields::Json(vec!["spec.paused".into()])).as_deref(),
            Some(r#"strict decoding error: duplicate field "spec.paused", unknown field "spec.replicaz""#)
        );
        let lines = [3, 5].map(|line| format!(r#"line {line}: key "paused" already set in map"#));
        assert_eq!(
            report.strict_error(&DuplicateFields::Yaml(lines.to_vec())).as_deref(),
            Some(
                "strict decoding error: yaml: unmarshal errors:\n  line 3: key \"paused\" already set in map\n  \
                 line 5: key \"paused\" already set in map, unknown field \"spec.replicaz\""
            )
        );
        assert_eq!(
            schema_check("stable.example.com", "v1", "CronTab", &json!({"x": 1})),
            SchemaReport::default()
        );
    }

    #[test]
    fn wrong_types_read_as_in_kubernetes_api_8() {
        let cases = [
            (
                json!({"spec": {"replicas": "three"}}),
                "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                json!({"spec": {"replicas": 1.5}}),
                "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                json!({"spec": {"template": {"spec": {"containers": [{"env": [{"name": "A", "value": 1}]}]}}}}),
                "json: cannot unmarshal number into Go struct field EnvVar.spec.template.spec.containers.env.value of type string",
            ),
            (
                json!({"spec": {"template": {"spec": {"containers": {}}}}}),
                "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
            ),
            (
                json!({"metadata": {"labels": {"a": true}}}),
                "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels.a of type string",
            ),
        ];
        for (document, expect) in cases {
            let report = schema_check("apps", "v1", "Deployment", &document);
            assert_eq!(report.mistyped[0].to_string(), expect);
            assert!(report.unknown.is_empty());
        }
        let within = |schema: Value| json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}});
        let of_definition = |schema: Value| {
            let report =
                schema_check("apiextensions.k8s.io", "v1", "CustomResourceDefinition", &within(schema));
            let mistyped = report.mistyped.iter().map(ToString::to_string);
            mistyped.chain(report.unknown).collect::<Vec<_>>()
        };
        for schema in [
            json!({"items": {"type": "string"}, "additionalProperties": true, "dependencies": {"a": ["b"]}}),
            json!({"items": [{"type": "string"}], "additionalProperties": {"type": "string"}}),
        ] {
            assert!(of_definition(schema.clone()).is_empty(), "{schema}");
        }
        let place = "JSONSchemaProps.spec.versions.schema.openAPIV3Schema";
        for (schema, expect) in [
            (
                json!({"additionalProperties": 5}),
                format!(
                    "json: cannot unmarshal number into Go struct field {place}.additionalProperties of type v1.JSONSchemaProps"
                ),
            ),
            (
                json!({"items": {"type": 5}}),
                format!(
                    "json: cannot unmarshal number into Go struct field {place}.items.type of type string"
                ),
            ),
            (
                json!({"dependencies": {"a": true}}),
                format!(
                    "json: cannot unmarshal bool into Go struct field {place}.dependencies.a of type []string"
                ),
            ),
            (
                json!({"items": {"propertiez": {}}}),
                "spec.versions[0].schema.openAPIV3Schema.items.propertiez".into(),
            ),
        ] {
            assert_eq!(of_definition(schema.clone()), [expect], "{schema}");
        }
        let quantity = json!({"spec": {"containers": [{"resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
            "livenessProbe": {"httpGet": {"port": "http"}}}]}});
        assert_eq!(schema_check("", "v1", "Pod", &quantity), SchemaReport::default());
    }
}
