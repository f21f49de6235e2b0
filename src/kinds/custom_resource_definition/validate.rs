//! Validation of CRDs apart from their schemas, in the words of the apiextensions server.

use std::collections::HashSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresources,
    JSONSchemaProps,
};

use super::{conversion, is_established, schema};
use crate::custom::simple_path;
use apimachinery::cel::field_schema;
use apimachinery::validate::{FieldErrors, Path, names};
use base::quote::prints;
use object::json_path::{Dialect, JsonPath};

/// The annotation with which a CRD in one of Kubernetes' own groups states that it is approved.
const APPROVED: &str = "api-approved.kubernetes.io";

/// The maximum number of selectable fields of a version, as in Kubernetes.
const MAX_SELECTABLE: usize = 8;

const MAX_WARNING_BYTES: usize = 256;

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// Requires that the name consists of the plural and the group.
pub(super) fn name(definition: &CustomResourceDefinition, errors: &mut FieldErrors) {
    let name = definition.metadata.name.as_deref().unwrap_or_default();
    let spec = &definition.spec;
    if name != format!("{}.{}", spec.names.plural, spec.group) {
        errors.invalid(&Path::root("metadata.name"), name, "must be spec.names.plural+\".\"+spec.group");
    }
}

/// Validates the spec; `old` is the previous one.
pub(super) fn spec(
    spec: &CustomResourceDefinitionSpec,
    old: Option<&CustomResourceDefinitionSpec>,
    errors: &mut FieldErrors,
) {
    let path = Path::root("spec");
    group(&spec.group, &path.child("group"), errors);
    let scope = Some(spec.scope.as_str());
    errors.required_one_of(&path.child("scope"), scope, &["Cluster", "Namespaced"]);
    if spec.preserve_unknown_fields == Some(true) {
        errors.invalid(
            &path.child("preserveUnknownFields"),
            &true,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
             spec.versions[*].schema instead",
        );
    }
    versions(&spec.versions, old.map_or(&[], |old| &old.versions), &path, errors);
    resource_names(&spec.names, &path.child("names"), errors);
    if let Some(conversion) = &spec.conversion {
        let old = old.and_then(|old| old.conversion.as_ref());
        conversion::validate(conversion, old, &path.child("conversion"), errors);
    }
}

fn group(group: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let wrong = names::dns_1123_subdomain(group);
    if group.is_empty() {
        errors.required(path, "");
    } else if !wrong.is_empty() {
        errors.invalid(path, group, wrong.join(","));
    } else if !group.contains('.') {
        errors.invalid(path, group, "should be a domain with at least one dot");
    }
}

/// Validates the versions; `old` is the previous list.
fn versions(
    versions: &[CustomResourceDefinitionVersion],
    old: &[CustomResourceDefinitionVersion],
    spec: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let list = spec.child("versions");
    let schemas = of_all(versions, |version| &version.schema);
    let subresources = of_all(versions, |version| &version.subresources);
    let columns = of_all(versions, |version| &version.additional_printer_columns);
    let selectable = of_all(versions, |version| &version.selectable_fields);
    for (i, version) in versions.iter().enumerate() {
        let path = list.index(i);
        let wrong = names::dns_1035_label(&version.name);
        if !wrong.is_empty() {
            errors.invalid(&path.child("name"), &version.name, wrong.join(","));
        }
        if let Some(warning) = &version.deprecation_warning {
            let is_deprecated = version.deprecated == Some(true);
            deprecation_warning(warning, is_deprecated, &path.child("deprecationWarning"), errors);
        }
        // Errors in parts that all versions share are reported once, as in Kubernetes.
        let own = |shared: bool| (!shared || i == 0).then_some(if shared { *spec } else { path });
        let of_version = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
        match of_version {
            None => errors.required(&path.child("schema.openAPIV3Schema"), "schemas are required"),
            Some(root) => {
                if let Some(at) = own(schemas) {
                    let within = if schemas { at.child("validation") } else { at.child("schema") };
                    let has_status = version.subresources.as_ref().is_some_and(|s| s.status.is_some());
                    let had = old.iter().find(|old| old.name == version.name);
                    let is_unchanged = had.is_some_and(|had| had.schema == version.schema);
                    schema::validate(
                        root,
                        has_status,
                        is_unchanged,
                        &within.child("openAPIV3Schema"),
                        errors,
                    );
                }
            }
        }
        if let (Some(at), Some(own)) = (own(subresources), &version.subresources) {
            scale(own, &at.child("subresources"), errors);
        }
        if let (Some(at), Some(own)) = (own(columns), &version.additional_printer_columns) {
            let path = at.child("additionalPrinterColumns");
            own.iter().enumerate().for_each(|(i, own)| column(own, &path.index(i), errors));
        }
        if let Some(at) = own(selectable) {
            selectable_fields(version, of_version, &at.child("selectableFields"), errors);
        }
    }
    let different: HashSet<&str> = versions.iter().map(|version| version.name.as_str()).collect();
    if different.len() != versions.len() {
        errors.invalid_itself(&list, "must contain unique version names");
    }
    if versions.iter().filter(|version| version.storage).count() != 1 {
        errors.invalid_itself(&list, "must have exactly one version marked as storage version");
    }
}

/// Validates a version's deprecation warning: a short line, allowed only if the version is deprecated.
fn deprecation_warning(text: &str, is_deprecated: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    if !is_deprecated {
        return errors.invalid(path, text, "can only be set for deprecated versions");
    }
    if text.len() > MAX_WARNING_BYTES {
        errors.invalid(path, text, format!("must be <= {MAX_WARNING_BYTES} characters long"));
    }
    if text.is_empty() {
        errors.invalid(path, text, "must not be an empty string");
    }
    if let Some((at, _)) = text.char_indices().find(|(_, c)| !prints(*c)) {
        let detail = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        );
        errors.invalid(path, text, detail);
    }
}

/// Returns whether a part is equal in all versions. Kubernetes then stores the part once, and reports its errors once.
fn of_all<T: PartialEq>(
    versions: &[CustomResourceDefinitionVersion],
    part: impl Fn(&CustomResourceDefinitionVersion) -> &T,
) -> bool {
    versions.windows(2).all(|two| part(&two[0]) == part(&two[1]))
}

fn resource_names(named: &CustomResourceDefinitionNames, path: &Path<'_>, errors: &mut FieldErrors) {
    let text = |name: &Option<String>| name.clone().unwrap_or_default();
    let (singular, list_kind) = (text(&named.singular), text(&named.list_kind));
    for (field, name, any_case) in [
        ("plural", &named.plural, false),
        ("singular", &singular, false),
        ("kind", &named.kind, true),
        ("listKind", &list_kind, true),
    ] {
        let path = path.child(field);
        if name.is_empty() {
            errors.required(&path, "");
        } else if any_case {
            let wrong = names::dns_1035_label(&name.to_lowercase());
            if !wrong.is_empty() {
                let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
                errors.invalid(&path, name, detail);
            }
        } else {
            label(name, &path, errors);
        }
    }
    let (short, categories) = (path.child("shortNames"), path.child("categories"));
    for (i, name) in named.short_names.iter().flatten().enumerate() {
        label(name, &short.index(i), errors);
    }
    if !named.kind.is_empty() && named.kind == list_kind {
        errors.invalid(&path.child("listKind"), &list_kind, "kind and listKind may not be the same");
    }
    for (i, name) in named.categories.iter().flatten().enumerate() {
        label(name, &categories.index(i), errors);
    }
}

fn label(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let wrong = names::dns_1035_label(name);
    if !wrong.is_empty() {
        errors.invalid(path, name, wrong.join(","));
    }
}

fn scale(subresources: &CustomResourceSubresources, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(scale) = &subresources.scale else { return };
    let path = path.child("scale");
    let mut check = |field: &str, text: &str, under: &[&str], detail: &str| {
        let path = path.child(field);
        if text.is_empty() {
            errors.required(&path, "");
        } else if let Err(reason) = simple_path(text) {
            errors.invalid(&path, text, format!("should be a simple json path: {reason}"));
        } else if !under.iter().any(|start| text.starts_with(start)) {
            errors.invalid(&path, text, detail);
        }
    };
    check("specReplicasPath", &scale.spec_replicas_path, &[".spec."], "should be a json path under .spec");
    check(
        "statusReplicasPath",
        &scale.status_replicas_path,
        &[".status."],
        "should be a json path under .status",
    );
    if let Some(selector) = scale.label_selector_path.as_deref().filter(|path| !path.is_empty()) {
        let detail = "should be a json path under either .spec or .status";
        check("labelSelectorPath", selector, &[".spec.", ".status."], detail);
    }
}

fn column(column: &CustomResourceColumnDefinition, path: &Path<'_>, errors: &mut FieldErrors) {
    let one_of = |known: &[&str]| format!("must be one of {}", known.join(","));
    if column.name.is_empty() {
        errors.required(&path.child("name"), "");
    }
    if column.type_.is_empty() {
        errors.required(&path.child("type"), one_of(&COLUMN_TYPES));
    } else if !COLUMN_TYPES.contains(&column.type_.as_str()) {
        errors.invalid(&path.child("type"), &column.type_, one_of(&COLUMN_TYPES));
    }
    if let Some(format) = column.format.as_deref().filter(|format| !format.is_empty())
        && !COLUMN_FORMATS.contains(&format)
    {
        errors.invalid(&path.child("format"), format, one_of(&COLUMN_FORMATS));
    }
    if column.json_path.is_empty() {
        errors.required(&path.child("jsonPath"), "");
    } else if let Err(reason) = JsonPath::parse(&column.json_path, Dialect::Definitions) {
        let detail = format!("unrecognized path: {reason}");
        errors.invalid(&path.child("jsonPath"), &column.json_path, detail);
    }
}

fn selectable_fields(
    version: &CustomResourceDefinitionVersion,
    schema: Option<&JSONSchemaProps>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let fields = version.selectable_fields.as_deref().unwrap_or_default();
    if fields.len() > MAX_SELECTABLE {
        errors.too_many(path, fields.len(), MAX_SELECTABLE);
    }
    let mut seen = HashSet::new();
    for (item, field) in path.each(fields.iter()) {
        let path = item.child("jsonPath");
        if field.json_path.is_empty() {
            errors.required(&path, "");
            continue;
        }
        let names = match simple_path(&field.json_path) {
            Ok(names) => names,
            Err(reason) => {
                errors.invalid(&path, &field.json_path, format!("is an invalid path: {reason}"));
                continue;
            }
        };
        if names.first().is_some_and(|name| name == "metadata") {
            errors.invalid(&path, &field.json_path, "must not point to fields in metadata");
        } else if !seen.insert(&field.json_path) {
            errors.duplicate(&path, &field.json_path);
        } else if let Some(schema) = schema {
            match names.iter().try_fold(schema, |schema, name| field_schema(Some(schema), name)) {
                None => errors.invalid(
                    &path,
                    &field.json_path,
                    "is an invalid path: does not refer to a valid field",
                ),
                Some(schema) => {
                    let type_ = schema.type_.as_deref().unwrap_or_default();
                    if !["boolean", "integer", "string"].contains(&type_) {
                        let detail = "must point to a field of type boolean, integer, or string. Enum string \
                                      fields and strings with formats are allowed.";
                        errors.invalid(&path, &field.json_path, detail);
                    }
                }
            }
        }
    }
}

/// Requires that `status.storedVersions` has only versions of the definition, and the storage version among them.
pub(super) fn stored_versions(definition: &CustomResourceDefinition, errors: &mut FieldErrors) {
    let path = Path::root("status.storedVersions");
    let stored = definition.status.as_ref().and_then(|status| status.stored_versions.as_deref());
    let stored = stored.unwrap_or_default();
    if stored.is_empty() {
        errors.invalid(&path, &Vec::<String>::new(), "must have at least one stored version");
        return;
    }
    let versions = &definition.spec.versions;
    for (i, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| version.name == *name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            errors.invalid(&path.index(i), name, detail);
        }
    }
    if let Some(storage) = versions.iter().find(|version| version.storage)
        && !stored.contains(&storage.name)
    {
        let detail = format!("must have the storage version {}", storage.name);
        errors.invalid(&path, &stored.to_vec(), detail);
    }
}

/// CRDs in Kubernetes' own groups must state that they are approved or unapproved.
pub(super) fn approval(definition: &CustomResourceDefinition, errors: &mut FieldErrors) {
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    if !is_protected(&definition.spec.group) {
        return;
    }
    let annotations = Path::root("metadata.annotations");
    let path = annotations.key(APPROVED);
    let value = definition.metadata.annotations.as_ref().and_then(|all| all.get(APPROVED));
    match value.map(String::as_str) {
        None | Some("") => errors
            .required(&path, format!("protected groups must have approval annotation \"{APPROVED}\", {SEE}")),
        Some(value) if value.starts_with("unapproved") => {}
        Some(value) => {
            let is_url = value.split_once("://").is_some_and(|(scheme, rest)| {
                !scheme.is_empty() && !rest.split(['/', '?', '#']).next().unwrap_or_default().is_empty()
            });
            if !is_url {
                errors.invalid(
                    &path,
                    value,
                    format!(
                        "protected groups must have approval annotation \"{APPROVED}\" with either a URL or \
                         a reason starting with \"unapproved\", {SEE}"
                    ),
                );
            }
        }
    }
}

/// Returns whether a group is one of Kubernetes' own.
fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|own| group.strip_suffix(own).is_some_and(|before| before.is_empty() || before.ends_with('.')))
}

/// Refuses changes of immutable fields: of group and plural always, of kind and scope once the definition is
/// established.
pub(super) fn update(
    new: &CustomResourceDefinition,
    old: &CustomResourceDefinition,
    errors: &mut FieldErrors,
) {
    let path = Path::root("spec");
    let names = path.child("names");
    if is_established(old) {
        errors.immutable(&path.child("scope"), &new.spec.scope, &old.spec.scope);
        errors.immutable(&names.child("kind"), &new.spec.names.kind, &old.spec.names.kind);
    }
    errors.immutable(&path.child("group"), &new.spec.group, &old.spec.group);
    errors.immutable(&names.child("plural"), &new.spec.names.plural, &old.spec.names.plural);
}
