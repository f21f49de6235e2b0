//! Migration from client-side to server-side apply: kubectl becomes the applier of the fields in its
//! annotation.

use serde_json::Value;

use super::compare::field_set;
use super::types::Type;
use super::versions::changes;
use apimachinery::validate::metadata::ANNOTATIONS_MAX_BYTES;
use object::managed::FieldSet;
use object::well_known::annotation::LAST_APPLIED;

/// The only manager for which the annotation is maintained.
pub(crate) const KUBECTL: &str = "kubectl";
fn annotation(object: &Value) -> Option<&str> {
    object.get("metadata")?.get("annotations")?.get(LAST_APPLIED)?.as_str()
}

/// Returns the fields of the annotation whose values in the live object are unchanged.
pub(crate) fn still_as_applied(of: Type<'_>, live: &Value, version: &str) -> FieldSet {
    let applied = annotation(live).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(applied) = applied.filter(|applied| applied["apiVersion"] == version) else {
        return FieldSet::default();
    };
    let set = field_set(of, &applied);
    let changes = changes(of, &applied, live);
    set.difference(&changes.modified).difference(&changes.added).difference(&changes.removed)
}

/// Updates the annotation, if there is one.
pub(crate) fn renew(next: &mut Value, config: &Value) {
    if annotation(next).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
    let Some(annotations) = next.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else {
        return;
    };
    annotations.insert(LAST_APPLIED.into(), format!("{config}\n").into());
    let length = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
    if annotations.iter().map(length).sum::<usize>() > ANNOTATIONS_MAX_BYTES {
        annotations.remove(LAST_APPLIED);
    }
}
