//! Rules of `metadata`, and of labels in any object.

use std::collections::HashSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, OwnerReference};

use serde_json::Value;

use super::field::{FieldErrors, Path};
use super::names;
use base::quote::quote;
use object::selector::Labels;
use object::{Kind, ObjectPart as _, owner};

/// The maximum size of the keys and values of all annotations together.
pub const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;

/// The maximum size of a field manager's name.
const MANAGER_MAX_BYTES: usize = 128;
/// The maximum size of the subresource in an entry of managed fields.
const MANAGED_SUBRESOURCE_MAX_BYTES: usize = 256;

/// The finalizer under which dependents are deleted first.
pub const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
/// The finalizer under which dependents are orphaned.
pub const ORPHAN_FINALIZER: &str = "orphan";
/// Finalizers that need no domain.
const STANDARD_FINALIZERS: &[&str] = &["kubernetes", FOREGROUND_FINALIZER, ORPHAN_FINALIZER];

/// Validates the names of a kind; returns the errors of a name.
pub(crate) type NameRule = fn(&str) -> Vec<String>;

/// Validates the metadata of a new object.
pub fn validate_meta(errors: &mut FieldErrors, kind: Kind, rule: NameRule, meta: &ObjectMeta) {
    let path = Path::root("metadata");
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let generate = text(&meta.generate_name);
    if !generate.is_empty() {
        errors.invalid_each(&path.child("generateName"), &generate, rule(&names::as_prefix(&generate)));
    }
    let name = text(&meta.name);
    if name.is_empty() {
        errors.required(&path.child("name"), "name or generateName is required");
    } else {
        errors.invalid_each(&path.child("name"), &name, rule(&name));
    }
    let namespace = text(&meta.namespace);
    match (kind.namespaced(), namespace.is_empty()) {
        (true, true) => errors.required(&path.child("namespace"), ""),
        (true, false) => {
            errors.invalid_each(&path.child("namespace"), &namespace, names::dns_1123_label(&namespace));
        }
        (false, false) => errors.forbidden(&path.child("namespace"), "not allowed on this type"),
        (false, true) => {}
    }
    contents(errors, kind, &path, meta);
}

/// Validates the metadata of an embedded resource, which may be of any kind.
pub fn validate_embedded(errors: &mut FieldErrors, path: &Path<'_>, meta: &ObjectMeta) {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let generate = text(&meta.generate_name);
    if !generate.is_empty() {
        let faults = names::path_segment(&names::as_prefix(&generate));
        errors.invalid_each(&path.child("generateName"), &generate, faults);
    }
    let name = text(&meta.name);
    if !name.is_empty() {
        errors.invalid_each(&path.child("name"), &name, names::path_segment(&name));
    }
    let namespace = text(&meta.namespace);
    if !namespace.is_empty() {
        errors.invalid_each(&path.child("namespace"), &namespace, names::dns_1123_label(&namespace));
    }
    contents(errors, Kind::CustomResourceDefinition, path, meta);
}

/// Validates metadata except for the object's names.
fn contents(errors: &mut FieldErrors, kind: Kind, path: &Path<'_>, meta: &ObjectMeta) {
    errors.non_negative(&path.child("generation"), meta.generation.unwrap_or(0));
    labels(errors, &path.child("labels"), meta.labels.as_ref());
    annotations(errors, &path.child("annotations"), meta.annotations.as_ref());
    owner_references(errors, &path.child("ownerReferences"), meta);
    finalizers(errors, kind, &path.child("finalizers"), meta.finalizers.as_deref().unwrap_or_default());
    managed_fields(errors, &path.child("managedFields"), meta.managed_fields.as_deref().unwrap_or_default());
}

/// Validates the metadata of a new version of an object.
pub fn validate_meta_update(errors: &mut FieldErrors, kind: Kind, new: &ObjectMeta, old: &ObjectMeta) {
    let path = Path::root("metadata");
    if old.deletion_timestamp.is_some() {
        let before: HashSet<&String> = old.finalizers.iter().flatten().collect();
        let added: Vec<_> = new.finalizers.iter().flatten().filter(|f| !before.contains(*f)).collect();
        if !added.is_empty() {
            let list: Vec<_> = added.iter().map(|f| quote(f)).collect();
            errors.forbidden(
                &path.child("finalizers"),
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    list.join(", ")
                ),
            );
        }
    }
    for (field, new, old) in [
        ("name", &new.name, &old.name),
        ("namespace", &new.namespace, &old.namespace),
        ("uid", &new.uid, &old.uid),
    ] {
        errors.immutable(&path.child(field), new, old);
    }
    let (before, after) = (old.generation.unwrap_or(0), new.generation.unwrap_or(0));
    if after < before {
        errors.invalid(&path.child("generation"), &after, "must not be decremented");
    }
    // Names are immutable, so that a stricter rule of a later release must not block existing objects.
    contents(errors, kind, &path, new);
}

/// Validates the labels of an object or template.
pub fn labels(errors: &mut FieldErrors, path: &Path<'_>, labels: Option<&Labels>) {
    for (key, value) in labels.into_iter().flatten() {
        label_key(errors, path, key);
        errors.invalid_each(&path.key(key), value, names::label_value(value));
    }
}

/// Validates the key of a label.
pub fn label_key(errors: &mut FieldErrors, path: &Path<'_>, key: &str) {
    errors.invalid_each(path, key, names::qualified_name(key));
}

/// Validates annotations: their keys, and the size of all.
pub fn annotations(errors: &mut FieldErrors, path: &Path<'_>, annotations: Option<&Labels>) {
    let mut bytes = 0;
    for (key, value) in annotations.into_iter().flatten() {
        // Annotation keys may have upper-case letters for historical reasons.
        errors.invalid_each(path, key, names::qualified_name(&key.to_lowercase()));
        bytes += key.len() + value.len();
    }
    if bytes > ANNOTATIONS_MAX_BYTES {
        errors.too_long(path, ANNOTATIONS_MAX_BYTES);
    }
}

/// Returns the fields that the metadata of a template has in addition to labels and annotations.
pub(crate) fn beyond_labels_and_annotations(meta: &ObjectMeta) -> Vec<String> {
    let fields = meta.to_value();
    // Go clients write absent texts as empty ones.
    let is_set =
        |value: &Value| value.as_str() != Some("") && value.as_array().is_none_or(|all| !all.is_empty());
    let set = fields.as_object().into_iter().flatten().filter(|(_, value)| is_set(value));
    let fields = set.map(|(field, _)| field.clone());
    fields.filter(|field| !matches!(field.as_str(), "labels" | "annotations")).collect()
}

fn managed_fields(errors: &mut FieldErrors, path: &Path<'_>, entries: &[ManagedFieldsEntry]) {
    for (path, entry) in path.each(entries.iter()) {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let operation = text(&entry.operation);
        if !["Apply", "Update"].contains(&operation.as_str()) {
            errors.invalid(&path.child("operation"), &operation, "must be `Apply` or `Update`");
        }
        let type_ = text(&entry.fields_type);
        if !["", "FieldsV1"].contains(&type_.as_str()) {
            errors.invalid(&path.child("fieldsType"), &type_, "must be `FieldsV1`");
        }
        for (field, value, max) in [
            ("manager", &entry.manager, MANAGER_MAX_BYTES),
            ("subresource", &entry.subresource, MANAGED_SUBRESOURCE_MAX_BYTES),
        ] {
            if text(value).len() > max {
                errors.too_long(&path.child(field), max);
            }
        }
    }
}

fn owner_references(errors: &mut FieldErrors, path: &Path<'_>, meta: &ObjectMeta) {
    let references = meta.owner_references.as_deref().unwrap_or_default();
    for (i, reference) in references.iter().enumerate() {
        owner_reference(errors, &path.index(i), reference);
    }
    let Some(first) = owner::controller_of(meta) else { return };
    for second in references.iter().filter(|r| r.controller == Some(true)).skip(1) {
        let list: Vec<_> = references.iter().map(object::json_of).collect();
        errors.invalid(
            path,
            &Value::Array(list),
            format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
                described(first),
                described(second)
            ),
        );
    }
}

fn described(reference: &OwnerReference) -> String {
    format!("{}/{}", reference.kind, reference.name)
}

fn owner_reference(errors: &mut FieldErrors, path: &Path<'_>, reference: &OwnerReference) {
    let version = reference.api_version.rsplit('/').next().unwrap_or_default();
    if version.is_empty() {
        errors.invalid(&path.child("apiVersion"), &reference.api_version, "version must not be empty");
    }
    for (field, value, detail) in [
        ("kind", &reference.kind, "must not be empty"),
        ("name", &reference.name, "must not be empty"),
        ("uid", &reference.uid, "must not be empty"),
    ] {
        if value.is_empty() {
            errors.invalid(&path.child(field), value, detail);
        }
    }
    if reference.api_version == "v1" && reference.kind == "Event" {
        errors.invalid(path, "/v1, Kind=Event", "/v1, Kind=Event is disallowed from being an owner");
    }
}

fn finalizers(errors: &mut FieldErrors, kind: Kind, path: &Path<'_>, all: &[String]) {
    // Kubernetes names the position only of a name without a domain.
    for name in all {
        errors.invalid_each(path, name, names::qualified_name(name));
    }
    for (at, name) in all.iter().enumerate() {
        finalizer_domain(errors, kind, &path.index(at), name);
    }
    if [ORPHAN_FINALIZER, FOREGROUND_FINALIZER].iter().all(|policy| all.iter().any(|name| name == policy)) {
        errors.invalid(
            path,
            &Value::from(all.to_vec()),
            "finalizer orphan and foregroundDeletion cannot be both set",
        );
    }
}

/// Validates a finalizer of a namespace's spec.
pub fn finalizer_name(errors: &mut FieldErrors, kind: Kind, path: &Path<'_>, name: &str) {
    errors.invalid_each(path, name, names::qualified_name(name));
    finalizer_domain(errors, kind, path, name);
}

/// Refuses a finalizer without a domain. CRDs and custom objects may have such finalizers, since the apiextensions
/// server does not require a domain.
fn finalizer_domain(errors: &mut FieldErrors, kind: Kind, path: &Path<'_>, name: &str) {
    let may_be_short = kind.is_custom() || kind == Kind::CustomResourceDefinition;
    let is_known = may_be_short || name.contains('/') || STANDARD_FINALIZERS.contains(&name);
    if !is_known && names::qualified_name(name).is_empty() {
        errors.invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified");
    }
}
