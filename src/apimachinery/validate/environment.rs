//! Rules of environment variables and of their sources.

use k8s_openapi::api::core::v1::{
    EnvFromSource, EnvVar, EnvVarSource, FileKeySelector, ObjectFieldSelector, ResourceFieldSelector,
};
use object::quantity::Amount;

use super::field::{FieldErrors, Path};
use super::{names, paths, resources};

/// The fields of the pod that a variable may have as its value.
const ENV_FIELDS: &[&str] = &[
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
];

/// The fields of the pod that a file may contain.
pub(crate) const FILE_FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

const ENV_RESOURCES: &[&str] = &[
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage",
    "requests.memory",
];

/// The allowed divisors for a container's request or limit in bytes.
const BYTE_DIVISORS: &[&str] =
    &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Validates environment variables.
pub fn variables(errors: &mut FieldErrors, path: &Path<'_>, list: &[EnvVar]) {
    for (path, variable) in path.each(list.iter()) {
        if variable.name.is_empty() {
            errors.required(&path.child("name"), "");
        } else {
            errors.invalid_each(
                &path.child("name"),
                &variable.name,
                names::environment_variable(&variable.name),
            );
        }
        if let Some(source) = &variable.value_from {
            let has_value = variable.value.as_ref().is_some_and(|v| !v.is_empty());
            variable_source(errors, &path.child("valueFrom"), source, has_value);
        }
    }
}

fn variable_source(errors: &mut FieldErrors, path: &Path<'_>, source: &EnvVarSource, has_value: bool) {
    let mut sources = 0;
    if let Some(field) = &source.field_ref {
        sources += 1;
        pod_field(errors, &path.child("fieldRef"), field, ENV_FIELDS);
    }
    if let Some(resource) = &source.resource_field_ref {
        sources += 1;
        container_resource(errors, &path.child("resourceFieldRef"), resource);
    }
    if let Some(key) = &source.config_map_key_ref {
        sources += 1;
        key_reference(errors, &path.child("configMapKeyRef"), &key.name, &key.key);
    }
    if let Some(key) = &source.secret_key_ref {
        sources += 1;
        key_reference(errors, &path.child("secretKeyRef"), &key.name, &key.key);
    }
    if let Some(key) = &source.file_key_ref {
        sources += 1;
        file_key(errors, &path.child("fileKeyRef"), key);
    }
    if sources == 0 {
        errors.invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        );
    } else if has_value {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        errors.invalid(path, "", "may not have more than one field specified at a time");
    }
}

/// Validates a reference to a field of the pod, which must be one of `supported`; labels and annotations are written
/// with `['key']`.
pub(crate) fn pod_field(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    field: &ObjectFieldSelector,
    supported: &[&str],
) {
    if field.api_version.as_deref().unwrap_or_default().is_empty() {
        errors.required(&path.child("apiVersion"), "");
        return;
    }
    let at_path = path.child("fieldPath");
    let text = field.field_path.as_str();
    if text.is_empty() {
        errors.required(&at_path, "");
        return;
    }
    let subscript = text.strip_suffix("']").and_then(|t| t.split_once("['"));
    match subscript {
        Some(("metadata.labels", key)) => errors.invalid_each(path, key, names::qualified_name(key)),
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            errors.invalid_each(path, &key, names::qualified_name(&key));
        }
        Some(_) => errors.invalid(&at_path, text, "does not support subscript"),
        None if supported.contains(&text) => {}
        None if ENV_FIELDS.contains(&text) || FILE_FIELDS.contains(&text) => {
            errors.unsupported(&at_path, text, supported);
        }
        None => errors.invalid(
            &at_path,
            text,
            format!("error converting fieldPath: field label not supported: {text}"),
        ),
    }
}

/// Validates a reference to a container's request or limit.
pub fn container_resource(errors: &mut FieldErrors, path: &Path<'_>, selector: &ResourceFieldSelector) {
    let resource = selector.resource.as_str();
    let kind = resource.split_once('.').filter(|(side, _)| matches!(*side, "limits" | "requests"));
    let huge_pages = kind.is_some_and(|(_, name)| name.starts_with("hugepages-"));
    if resource.is_empty() {
        errors.required(&path.child("resource"), "");
    } else if !huge_pages {
        errors.one_of(&path.child("resource"), resource, ENV_RESOURCES);
    }
    let (Some(divisor), Some((_, name))) = (&selector.divisor, kind) else { return };
    let path = path.child("divisor");
    let Some(divisor) = resources::quantity(errors, &path, divisor) else { return };
    let resource_name = match name {
        "cpu" => "cpu",
        "memory" => "memory",
        "ephemeral-storage" => "local ephemeral storage",
        _ if huge_pages => "hugepages",
        _ => return,
    };
    let among: &[&str] = if resource_name == "cpu" { &["1m", "1"] } else { BYTE_DIVISORS };
    if !divisor.is_zero() && !among.iter().any(|text| Amount::parse(text).is_ok_and(|one| one == divisor)) {
        let among = if resource_name == "cpu" { "1m and 1".into() } else { among.join(", ") };
        let detail = format!("only divisor's values {among} are supported with the {resource_name} resource");
        errors.invalid(&path, resource, detail);
    }
}

/// Validates a reference to a key of a ConfigMap or Secret.
fn key_reference(errors: &mut FieldErrors, path: &Path<'_>, name: &str, key: &str) {
    errors.invalid_each(&path.child("name"), name, names::dns_1123_subdomain(name));
    errors.required_name(&path.child("key"), key, names::config_key);
}

/// Validates a reference to a key of an environment file in a volume.
fn file_key(errors: &mut FieldErrors, path: &Path<'_>, key: &FileKeySelector) {
    errors.required_name(&path.child("key"), &key.key, names::environment_variable);
    errors.required_name(&path.child("volumeName"), &key.volume_name, names::dns_1123_label);
    let path = path.child("path");
    if key.path.is_empty() {
        errors.required(&path, "");
    } else {
        paths::local_file(errors, &path, &key.path);
    }
}

/// Validates references to whole ConfigMaps and Secrets.
pub fn sources(errors: &mut FieldErrors, path: &Path<'_>, list: &[EnvFromSource]) {
    for (path, source) in path.each(list.iter()) {
        errors.optional_name(&path.child("prefix"), source.prefix.as_deref(), names::environment_variable);
        let of = [
            ("configMapRef", source.config_map_ref.as_ref().map(|r| &r.name)),
            ("secretRef", source.secret_ref.as_ref().map(|r| &r.name)),
        ];
        for (field, name) in of {
            match name {
                Some(name) if name.is_empty() => errors.required(&path.child(field).child("name"), ""),
                // Kubernetes accepts names that end like the prefix of a generated name.
                Some(name) => errors.invalid_each(
                    &path.child(field).child("name"),
                    name,
                    names::dns_1123_subdomain(&names::as_prefix(name)),
                ),
                None => {}
            }
        }
        match of.iter().filter(|(_, name)| name.is_some()).count() {
            0 => errors.invalid(&path, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(&path, "", "may not have more than one field specified at a time"),
        }
    }
}
