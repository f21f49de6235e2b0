//! Checks a webhook's conversion of an object: the webhook may change labels and annotations of the metadata;
//! the rest of the metadata stays the object's own.

use serde_json::{Map, Value, json};

use crate::object_checks;
use apimachinery::validate::{self, FieldErrors, Path, depth, metadata};
use object::Object;
use object::go_format::go_type;
use object::selector::Labels;

/// A converted object.
#[derive(Debug)]
pub(super) struct ConvertedObject(pub(super) Object);

/// The error in a converted object, and the part that has it.
#[derive(Debug, PartialEq)]
pub(super) enum ConvertedObjectError {
    /// The error is outside of the metadata.
    Object(String),
    /// In its metadata.
    Metadata(String),
}

impl ConvertedObjectError {
    /// Returns the message; `place` is the object's index, if the review had several objects.
    pub(super) fn message(&self, place: Option<usize>) -> String {
        match (self, place) {
            (Self::Object(why), None) => format!("returned invalid object: {why}"),
            (Self::Object(why), Some(i)) => format!("returned invalid converted object at index {i}: {why}"),
            (Self::Metadata(why), None) => format!("returned invalid metadata: {why}"),
            (Self::Metadata(why), Some(i)) => {
                format!("returned invalid metadata in object at index {i}: {why}")
            }
        }
    }
}

/// Accepts a converted object if it has the requested version.
pub(super) fn restore_metadata(
    original: &Object,
    mut value: Value,
    api_version: &str,
) -> Result<ConvertedObject, ConvertedObjectError> {
    let wrong = |reason: String| Err(ConvertedObjectError::Object(reason));
    depth::check_value(&value).map_err(|error| ConvertedObjectError::Object(error.to_string()))?;
    object_checks::check_parts(&value).map_err(|error| ConvertedObjectError::Object(error.to_string()))?;
    let Some(fields) = value.as_object_mut() else { return wrong("not an object".into()) };
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_string();
    let (found_version, found_kind, kind) = (text("apiVersion"), text("kind"), original.kind().info().name);
    if found_version != api_version {
        return wrong(format!("invalid groupVersion (expected {api_version}, received {found_version})"));
    }
    if found_kind != kind {
        return wrong(format!("invalid kind (expected {kind}, received {found_kind})"));
    }
    let metadata = fields.insert("metadata".into(), json!({}));
    for (what, field, own) in [
        ("name", "name", original.name()),
        ("namespace", "namespace", original.namespace()),
        ("UID", "uid", original.uid()),
    ] {
        let found = metadata.as_ref().and_then(|metadata| metadata.get(field)).and_then(Value::as_str);
        let found = found.unwrap_or_default();
        if found != own {
            return wrong(format!("must have the same {what}: {own} != {found}"));
        }
    }
    let metadata = match metadata {
        Some(Value::Object(metadata)) => metadata,
        None => return Err(ConvertedObjectError::Metadata("missing metadata in converted object".into())),
        Some(other) => {
            let type_ = go_type(&other);
            return Err(ConvertedObjectError::Metadata(format!(
                "invalid metadata of type {type_} in converted object"
            )));
        }
    };
    let had = original.meta();
    let labels = string_map(&metadata, "labels", had.labels.as_ref(), |errors, path, all| {
        metadata::labels(errors, path, Some(all));
    })?;
    let annotations = string_map(&metadata, "annotations", had.annotations.as_ref(), |errors, path, all| {
        metadata::annotations(errors, path, Some(all));
    })?;
    let mut object = Object::from_value(original.kind(), value)
        .map_err(|error| ConvertedObjectError::Object(error.to_string()))?;
    object.meta_mut().clone_from(had);
    (object.meta_mut().labels, object.meta_mut().annotations) = (labels, annotations);
    object.set_managed_fields(original.managed_fields().clone());
    Ok(ConvertedObject(object))
}

/// Returns the labels or annotations of the response; validates them if they differ from the original
/// object's.
fn string_map(
    metadata: &Map<String, Value>,
    field: &str,
    had: Option<&Labels>,
    judge: impl Fn(&mut FieldErrors, &Path<'_>, &Labels),
) -> Result<Option<Labels>, ConvertedObjectError> {
    let answered = match metadata.get(field) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(answered)) => answered,
        Some(other) => {
            let type_ = go_type(other);
            let message = format!("invalid metadata.{field} of type {type_} in converted object");
            return Err(ConvertedObjectError::Metadata(message));
        }
    };
    let mut all = Labels::default();
    for (key, value) in answered {
        let Value::String(text) = value else {
            let message = format!(
                "metadata.{field}[{key}] must be a string, but is {} in converted object",
                go_type(value)
            );
            return Err(ConvertedObjectError::Metadata(message));
        };
        all.insert(key.clone(), text.clone());
    }
    if had != Some(&all) {
        let mut errors = FieldErrors::default();
        judge(&mut errors, &Path::root("metadata").child(field), &all);
        let errors = errors.into_vec();
        if !errors.is_empty() {
            return Err(ConvertedObjectError::Metadata(validate::join(&errors)));
        }
    }
    Ok(Some(all).filter(|all| !all.is_empty()))
}

#[cfg(test)]
mod tests {
    use object::{Kind, Scope};

    use super::*;

    #[test]
    fn a_conversion_may_change_labels_and_annotations_of_the_metadata_alone_api_14() {
        let kind = Kind::custom("settle.test", "things", "Thing", Scope::Namespaced).unwrap();
        let meta = json!({"name": "t", "namespace": "n", "uid": "u", "resourceVersion": "7",
            "finalizers": ["a/b"], "labels": {"a": "1"}});
        let of = |version: &str, meta: &Value| json!({"apiVersion": format!("settle.test/{version}"), "kind": "Thing", "metadata": meta, "spec": {"x": 1}});
        let original = Object::from_value(kind, of("v1", &meta)).unwrap();
        let with = |field: &str, value: Value| {
            let mut changed = meta.clone();
            changed[field] = value;
            of("v2", &changed)
        };
        let check = |value: Value, expected: Result<Value, &str>| {
            let found = restore_metadata(&original, value.clone(), "settle.test/v2");
            let found = found.map(|ConvertedObject(object)| object.to_value()["metadata"].clone());
            let actual = found.map_err(|fault| fault.message(None));
            assert_eq!(actual, expected.map_err(str::to_string), "{value}");
        };
        check(of("v2", &meta), Ok(meta.clone()));
        check(
            with("labels", json!({"b": "2"})),
            Ok({
                let mut expected = meta.clone();
                expected["labels"] = json!({"b": "2"});
                expected
            }),
        );
        let mut bare = meta.clone();
        bare.as_object_mut().unwrap().remove("labels");
        check(with("labels", json!(null)), Ok(bare));
        check(with("finalizers", json!([])), Ok(meta.clone()));
        check(with("resourceVersion", json!("9")), Ok(meta.clone()));
        check(with("creationTimestamp", json!({"no": "time"})), Ok(meta.clone()));
        let object = "returned invalid object: ";
        for (value, expected) in [
            (of("v1", &meta), "invalid groupVersion (expected settle.test/v2, received settle.test/v1)"),
            (with("name", json!("x")), "must have the same name: t != x"),
            (with("namespace", json!("x")), "must have the same namespace: n != x"),
            (with("uid", json!("x")), "must have the same UID: u != x"),
            (json!([]), "not an object"),
        ] {
            check(value, Err(&format!("{object}{expected}")));
        }
        let mut renamed = of("v2", &meta);
        renamed["kind"] = json!("Other");
        check(renamed, Err("returned invalid object: invalid kind (expected Thing, received Other)"));
        check(
            with("labels", json!({"a": 1})),
            Err(
                "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object",
            ),
        );
        check(
            with("annotations", json!([])),
            Err(
                "returned invalid metadata: invalid metadata.annotations of type []interface {} in converted object",
            ),
        );
        let bad =
            restore_metadata(&original, with("labels", json!({"-": "1"})), "settle.test/v2").unwrap_err();
        assert!(
            bad.message(Some(3))
                .starts_with("returned invalid metadata in object at index 3: metadata.labels")
        );
    }
}
