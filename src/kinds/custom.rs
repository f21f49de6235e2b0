//! The strategy of one version of a custom resource, read from its definition; the counterpart of a built-in kind's
//! file.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinitionVersion,
};
use serde_json::{Map, Value, json};

use super::columns::{self, ColumnDefinition};
use super::error::DefinitionError;
use super::resource::{Replicas, Strategy};
use super::served_schema::ServedSchema;
use apimachinery::validate::{FieldErrors, Path};
use object::definition_schemas::VersionSchema;
use object::json_path::{Dialect, JsonPath};
use object::time::human_age;
use object::{CustomObject, Kind, Object};

const STATUS: &str = "status";
/// The cell of a date that cannot be read.
const INVALID: &str = "<invalid>";

/// The strategy of one version of a custom resource.
pub struct CustomStrategy {
    schema: ServedSchema,
    /// The columns other than the name; empty if the definition has none.
    columns: Vec<PrinterColumn>,
    selectable: Vec<String>,
    status: bool,
    scale: Option<ScalePaths>,
    /// The warning for clients that use the version, if it is deprecated.
    deprecated: Option<String>,
}

struct PrinterColumn {
    definition: ColumnDefinition,
    path: JsonPath,
}

/// The paths of the replica counts, as field names from the outermost.
struct ScalePaths {
    desired: Vec<String>,
    current: Vec<String>,
    selector: Option<Vec<String>>,
}

impl CustomStrategy {
    /// Reads a version of the definition of `kind`.
    pub fn of(
        kind: Kind,
        version: &CustomResourceDefinitionVersion,
        schema: Option<&Arc<VersionSchema>>,
    ) -> Result<Self, DefinitionError> {
        let columns = version.additional_printer_columns.iter().flatten().map(PrinterColumn::of);
        let subresources = version.subresources.as_ref();
        let scale = subresources.and_then(|s| s.scale.as_ref()).map(|scale| {
            Ok::<_, DefinitionError>(ScalePaths {
                desired: field_path("specReplicasPath", &scale.spec_replicas_path)?,
                current: field_path("statusReplicasPath", &scale.status_replicas_path)?,
                selector: scale
                    .label_selector_path
                    .as_ref()
                    .map(|path| field_path("labelSelectorPath", path))
                    .transpose()?,
            })
        });
        let selectable = version.selectable_fields.iter().flatten();
        Ok(Self {
            schema: ServedSchema::new(schema),
            columns: columns.collect::<Result<_, _>>()?,
            selectable: selectable
                .map(|field| Ok(field_path("selectableFields.jsonPath", &field.json_path)?.join(".")))
                .collect::<Result<_, DefinitionError>>()?,
            status: subresources.is_some_and(|s| s.status.is_some()),
            scale: scale.transpose()?,
            deprecated: (version.deprecated == Some(true)).then(|| {
                let warning = version.deprecation_warning.clone();
                let info = kind.info();
                warning
                    .unwrap_or_else(|| format!("{}/{} {} is deprecated", info.group, version.name, info.name))
            }),
        })
    }

    /// Returns the version's schema.
    pub fn schema(&self) -> &ServedSchema {
        &self.schema
    }

    /// Returns true if the version has the subresource `status`.
    pub fn has_status(&self) -> bool {
        self.status
    }

    /// Returns true if the version has the subresource `scale`.
    pub fn has_scale(&self) -> bool {
        self.scale.is_some()
    }

    /// Prunes an object and fills in all defaults.
    pub fn apply_all_defaults(&self, object: &mut Object) {
        if let Some(custom) = object.custom_mut() {
            let schema = self.schema.load();
            schema.prune(&mut custom.fields);
            schema.apply_defaults(&mut custom.fields);
        }
    }

    fn validate(&self, object: &Object, old: Option<&Object>, errors: &mut FieldErrors) {
        let Some(custom) = object.custom() else { return };
        let before = old.and_then(Object::custom).map(|old| &old.fields);
        let schema = self.schema.load();
        schema.validate(&custom.fields, before, errors);
        if !self.schema.has_rules() {
            return;
        }
        if errors.block_rules() {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing \
                          errors to complete validation";
            return errors.invalid(&Path::root("<nil>"), "null", detail);
        }
        let old = old.and_then(as_rules_see_it);
        if let Some(new) = as_rules_see_it(object) {
            schema.evaluate_rules(&new, old.as_ref(), errors);
        }
    }
}

/// Returns an object as CEL rules see it: its metadata has only the name and the generated name's prefix.
fn as_rules_see_it(object: &Object) -> Option<Value> {
    let custom = object.custom()?;
    let mut fields = custom.fields.clone();
    let mut metadata = Map::new();
    let names = [("name", &object.meta().name), ("generateName", &object.meta().generate_name)];
    for (field, name) in names {
        metadata.extend(name.as_ref().map(|name| (field.to_string(), json!(name))));
    }
    fields.insert("apiVersion".into(), json!(custom.api_version()));
    fields.insert("kind".into(), json!(object.kind().info().name));
    fields.insert("metadata".into(), Value::Object(metadata));
    Some(Value::Object(fields))
}

impl PrinterColumn {
    fn of(column: &CustomResourceColumnDefinition) -> Result<Self, DefinitionError> {
        let path = JsonPath::parse(&column.json_path, Dialect::Definitions).map_err(|reason| {
            DefinitionError::Path {
                field: "additionalPrinterColumns.jsonPath",
                path: column.json_path.clone(),
                reason,
            }
        })?;
        let definition = ColumnDefinition {
            name: column.name.clone(),
            type_: column.type_.clone(),
            format: column.format.clone().unwrap_or_default(),
            description: column.description.clone().unwrap_or_else(|| {
                format!("Custom resource definition column (in JSONPath format): {}", column.json_path)
            }),
            priority: column.priority.unwrap_or(0),
        };
        Ok(Self { definition, path })
    }

    /// Formats the cell as the apiextensions server does: null if the path finds nothing or a value of another type.
    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(value) = self.path.find(object).into_iter().next() else { return Value::Null };
        match self.definition.type_.as_str() {
            "string" => match value {
                Value::String(text) => json!(text),
                other => json!(other.to_string()),
            },
            "integer" => match value.as_i64().or(value.as_f64().map(|number| number as i64)) {
                Some(number) => json!(number),
                None => Value::Null,
            },
            "number" if value.is_number() => value.clone(),
            "boolean" if value.is_boolean() => value.clone(),
            "date" => match value.as_str().map(str::parse::<Timestamp>) {
                Some(Ok(then)) => json!(human_age(then, now)),
                Some(Err(_)) => json!(INVALID),
                None => Value::Null,
            },
            _ => Value::Null,
        }
    }
}

impl Strategy for CustomStrategy {
    /// Leaves a status that is a subresource as it is: its controller writes it, and reads fill in its defaults.
    fn apply_defaults(&self, object: &mut Object) {
        let Some(custom) = object.custom_mut() else { return };
        let schema = self.schema.load();
        schema.prune(&mut custom.fields);
        let status = custom.fields.get(STATUS).cloned();
        schema.apply_defaults(&mut custom.fields);
        if self.status {
            match status {
                Some(status) => drop(custom.fields.insert(STATUS.into(), status)),
                None => drop(custom.fields.remove(STATUS)),
            }
        }
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    /// Returns true if the status is a subresource; otherwise it is written together with the other fields.
    fn has_status(&self) -> bool {
        self.status
    }

    fn deprecation(&self) -> Option<&str> {
        self.deprecated.as_deref()
    }

    fn same_spec(&self, new: &Object, old: &Object) -> bool {
        match (new.custom(), old.custom()) {
            (Some(new), Some(old)) if !self.status => new.same_content(old),
            _ => new.same_spec(old),
        }
    }

    fn validate_create(&self, object: &Object, errors: &mut FieldErrors) {
        self.validate(object, None, errors);
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        self.validate(new, Some(old), errors);
    }

    fn validate_status(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        self.validate(new, Some(old), errors);
    }

    fn columns(&self) -> Vec<ColumnDefinition> {
        if self.columns.is_empty() {
            return columns::of_any_kind();
        }
        let name = columns::of_any_kind().into_iter().take(1);
        name.chain(self.columns.iter().map(|column| column.definition.clone())).collect()
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        if self.columns.is_empty() {
            return columns::cells_of_any_kind(object, now);
        }
        let value = object.to_value();
        let cells = self.columns.iter().map(|column| column.cell(&value, now));
        std::iter::once(json!(object.name())).chain(cells).collect()
    }

    fn selectable_fields(&self) -> Vec<String> {
        self.selectable.clone()
    }

    fn field<'a>(&self, object: &'a Object, path: &str) -> Cow<'a, str> {
        field(object, path)
    }

    fn replicas(&self, object: &Object) -> Option<Replicas> {
        let (scale, custom) = (self.scale.as_ref()?, object.custom()?);
        let number = |path: &[String]| {
            at(custom, path).and_then(Value::as_i64).and_then(|count| i32::try_from(count).ok())
        };
        let selector = scale.selector.as_deref().and_then(|path| at(custom, path)).and_then(Value::as_str);
        Some(Replicas {
            desired: Some(number(&scale.desired).unwrap_or(0)),
            current: number(&scale.current).unwrap_or(0),
            selector: selector.unwrap_or_default().to_string(),
        })
    }

    fn set_replicas(&self, object: &mut Object, count: i32) {
        let (Some(scale), Some(custom)) = (&self.scale, object.custom_mut()) else { return };
        let Some((last, holders)) = scale.desired.split_last() else { return };
        let mut fields = &mut custom.fields;
        for name in holders {
            let held = fields.entry(name.clone()).or_insert_with(|| Value::Object(Map::new()));
            let Value::Object(next) = held else { return };
            fields = next;
        }
        fields.insert(last.clone(), json!(count));
    }
}

/// Returns the text of a field of a custom object, given its path: `spec.color`.
fn field<'a>(object: &'a Object, path: &str) -> Cow<'a, str> {
    let names: Vec<String> = path.split('.').map(ToString::to_string).collect();
    match object.custom().and_then(|custom| at(custom, &names)) {
        Some(Value::String(text)) => text.as_str().into(),
        Some(other @ (Value::Number(_) | Value::Bool(_))) => other.to_string().into(),
        _ => "".into(),
    }
}

fn at<'a>(object: &'a CustomObject, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.fields.get(first)?, |value, name| value.get(name))
}

/// Splits a path of plain fields, the value of `field` in a definition, into names.
fn field_path(field: &'static str, path: &str) -> Result<Vec<String>, DefinitionError> {
    let wrong = |reason: &str| DefinitionError::Path { field, path: path.into(), reason: reason.into() };
    simple_path(path).map_err(wrong)
}

/// Splits a path of plain fields, such as `.spec.replicas`, into names.
pub(super) fn simple_path(path: &str) -> Result<Vec<String>, &'static str> {
    let names = path.strip_prefix('.').ok_or("must start with a dot")?;
    let plain =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if names.split('.').all(plain) {
        Ok(names.split('.').map(ToString::to_string).collect())
    } else {
        Err("must consist of field names only")
    }
}

/// The strategy of a custom kind without a definition, for example after its deletion: objects can still be read and
/// deleted.
pub(super) struct UndefinedStrategy;

impl Strategy for UndefinedStrategy {
    fn columns(&self) -> Vec<ColumnDefinition> {
        columns::of_any_kind()
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<serde_json::Value> {
        columns::cells_of_any_kind(object, now)
    }

    fn field<'a>(&self, object: &'a Object, path: &str) -> Cow<'a, str> {
        field(object, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_columns_are_kubernetes_own_api_7() {
        let object = json!({"spec": {"size": 3, "app-name": "dash"}, "metadata": {"annotations": {"a.b/c": "note"}},
            "status": {"conditions": [{"type": "Old", "status": "False"}, {"type": "Ready", "status": "True"}]}});
        let value = |path: &str| {
            let path = JsonPath::parse(path, Dialect::Definitions).unwrap();
            path.find(&object).into_iter().next().cloned()
        };
        for (path, expected) in [
            (".spec.size", Some(json!(3))),
            (".metadata.annotations.a\\.b/c", Some(json!("note"))),
            (".status.conditions[?(@.type==\"Ready\")].status", Some(json!("True"))),
            (".status.conditions[0].type", Some(json!("Old"))),
            (".spec.absent", None),
            (".spec.app-name", Some(json!("dash"))),
            (".status.conditions[].type", Some(json!("Old"))),
            (".status.conditions[*].type", Some(json!("Old"))),
            (".status.conditions[?(@.type=='a[.]b')].status", None),
            (".status.conditions[-1:].type", Some(json!("Ready"))),
            (".metadata.annotations['a\\.b/c']", Some(json!("note"))),
            (".metadata['annotations']['a\\.b/c']", Some(json!("note"))),
            (".metadata.annotations['a.b/c']", None),
            (".status.conditions[?(@['type']=='Ready')].status", Some(json!("True"))),
        ] {
            assert_eq!(value(path), expected, "{path}");
        }
        for hostile in [".spec[", &".a".repeat(300), &format!(".a[?{}", "(".repeat(400))] {
            assert!(JsonPath::parse(hostile, Dialect::Definitions).is_err(), "{hostile}");
        }
    }
}
