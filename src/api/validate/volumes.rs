//! Rules of volumes and of their mounts; paths that lead out of a volume are refused here.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, EphemeralVolumeSource, HostPathVolumeSource, KeyToPath, ProjectedVolumeSource,
    Volume, VolumeMount, VolumeProjection,
};

use super::field::{FieldErrors, Path};
use super::{environment, metadata, names, resources, storage};

const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

const BOTH: &str = "fieldRef and resourceFieldRef can not be specified simultaneously";

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Checks a pod's volumes and returns their names.
pub(crate) fn volumes<'a>(errors: &mut FieldErrors, path: &Path<'_>, list: &'a [Volume]) -> HashSet<&'a str> {
    let mut seen = HashSet::new();
    for (i, volume) in list.iter().enumerate() {
        let path = path.index(i);
        sources(errors, &path, volume);
        let wrong = names::dns_1123_label(&volume.name);
        if volume.name.is_empty() {
            errors.required(&path.child("name"), "");
        } else if !wrong.is_empty() {
            errors.invalid_each(&path.child("name"), &volume.name, wrong);
        } else if !seen.insert(volume.name.as_str()) {
            errors.duplicate(&path.child("name"), &volume.name);
        }
    }
    seen
}

/// Exactly one source, and its own rules where a process can use it.
fn sources(errors: &mut FieldErrors, path: &Path<'_>, volume: &Volume) {
    // The sources are all fields but the name; counting them by name keeps this list-free.
    let given = serde_json::to_value(volume).unwrap_or_default();
    let given: Vec<_> = given.as_object().map(|o| o.keys().cloned().collect()).unwrap_or_default();
    let mut first = None;
    for field in given.iter().filter(|field| *field != "name") {
        if first.is_some() {
            errors.forbidden(&path.child(field), "may not specify more than 1 volume type");
        } else {
            first = Some(field.as_str());
        }
    }
    if first.is_none() {
        errors.required(path, "must specify a volume type");
    }
    if let Some(source) = &volume.empty_dir
        && let Some(limit) = &source.size_limit
    {
        resources::quantity(errors, &path.child("emptyDir.sizeLimit"), limit);
    }
    if let Some(source) = &volume.host_path {
        host_path(errors, &path.child("hostPath"), source);
    }
    if let Some(source) = &volume.ephemeral {
        ephemeral(errors, &path.child("ephemeral"), source);
    }
    if let Some(source) = &volume.secret {
        let path = path.child("secret");
        if source.secret_name.as_deref().unwrap_or_default().is_empty() {
            errors.required(&path.child("secretName"), "");
        }
        mode(errors, &path.child("defaultMode"), source.default_mode);
        items(errors, &path.child("items"), source.items.as_deref());
    }
    if let Some(source) = &volume.config_map {
        let path = path.child("configMap");
        if source.name.is_empty() {
            errors.required(&path.child("name"), "");
        }
        mode(errors, &path.child("defaultMode"), source.default_mode);
        items(errors, &path.child("items"), source.items.as_deref());
    }
    if let Some(source) = &volume.downward_api {
        let path = path.child("downwardAPI");
        mode(errors, &path.child("defaultMode"), source.default_mode);
        downward_files(errors, &path, source.items.as_deref());
    }
    if let Some(source) = &volume.projected {
        projected(errors, &path.child("projected"), source);
    }
    if let Some(source) = &volume.persistent_volume_claim
        && source.claim_name.is_empty()
    {
        errors.required(&path.child("persistentVolumeClaim.claimName"), "");
    }
}

/// A path of the machine's.
pub(crate) fn host_path(errors: &mut FieldErrors, path: &Path<'_>, source: &HostPathVolumeSource) {
    if source.path.is_empty() {
        errors.required(&path.child("path"), "");
    } else {
        no_backsteps(errors, &path.child("path"), &source.path);
    }
    errors.one_of(&path.child("type"), source.type_.as_deref().unwrap_or_default(), HOST_PATH_TYPES);
}

/// A claim that is made for the pod.
fn ephemeral(errors: &mut FieldErrors, path: &Path<'_>, source: &EphemeralVolumeSource) {
    let path = path.child("volumeClaimTemplate");
    let Some(template) = &source.volume_claim_template else { return errors.required(&path, "") };
    if let Some(meta) = &template.metadata {
        let path = path.child("metadata");
        metadata::labels(errors, &path.child("labels"), meta.labels.as_ref());
        metadata::annotations(errors, &path.child("annotations"), meta.annotations.as_ref());
        let is_text = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        for (field, given) in [
            ("name", is_text(&meta.name)),
            ("namespace", is_text(&meta.namespace)),
            ("generateName", is_text(&meta.generate_name)),
            ("ownerReferences", meta.owner_references.as_ref().is_some_and(|all| !all.is_empty())),
            ("finalizers", meta.finalizers.as_ref().is_some_and(|all| !all.is_empty())),
        ] {
            if given {
                errors.forbidden(&path.child(field), "may not be set");
            }
        }
    }
    storage::claim_spec(errors, &path.child("spec"), &template.spec);
}

fn projected(errors: &mut FieldErrors, path: &Path<'_>, source: &ProjectedVolumeSource) {
    mode(errors, &path.child("defaultMode"), source.default_mode);
    let list = path.child("sources");
    for (i, projection) in source.sources.iter().flatten().enumerate() {
        projected_source(errors, &list.index(i), projection);
    }
}

fn projected_source(errors: &mut FieldErrors, path: &Path<'_>, projection: &VolumeProjection) {
    for (field, source) in [
        ("secret", projection.secret.as_ref().map(|s| (&s.name, &s.items))),
        ("configMap", projection.config_map.as_ref().map(|s| (&s.name, &s.items))),
    ] {
        if let Some((name, list)) = source {
            let path = path.child(field);
            if name.is_empty() {
                errors.required(&path.child("name"), "");
            }
            items(errors, &path.child("items"), list.as_deref());
        }
    }
    if let Some(source) = &projection.downward_api {
        downward_files(errors, &path.child("downwardAPI"), source.items.as_deref());
    }
    if let Some(token) = &projection.service_account_token {
        let path = path.child("serviceAccountToken");
        let seconds = token.expiration_seconds.unwrap_or(0);
        if seconds < 600 {
            let detail = "may not specify a duration less than 10 minutes";
            errors.invalid(&path.child("expirationSeconds"), &seconds, detail);
        }
        if seconds > 1 << 32 {
            let detail = "may not specify a duration larger than 2^32 seconds";
            errors.invalid(&path.child("expirationSeconds"), &seconds, detail);
        }
        if token.path.is_empty() {
            errors.required(&path.child("path"), "");
        } else {
            local_file(errors, &path.child("path"), &token.path);
        }
    }
}

fn downward_files(errors: &mut FieldErrors, path: &Path<'_>, files: Option<&[DownwardAPIVolumeFile]>) {
    for file in files.into_iter().flatten() {
        if file.path.is_empty() {
            errors.required(&path.child("path"), "");
        } else {
            local_file(errors, &path.child("path"), &file.path);
        }
        match (&file.field_ref, &file.resource_field_ref) {
            (Some(field), other) => {
                let path = path.child("fieldRef");
                environment::pod_field(errors, &path, field, environment::FILE_FIELDS);
                if other.is_some() {
                    errors.invalid(&path, "resource", BOTH);
                }
            }
            (None, Some(resource)) => {
                let path = path.child("resourceFieldRef");
                if resource.container_name.as_deref().unwrap_or_default().is_empty() {
                    errors.required(&path.child("containerName"), "");
                }
                environment::container_resource(errors, &path, resource);
            }
            (None, None) => errors.required(path, "one of fieldRef and resourceFieldRef is required"),
        }
        mode(errors, &path.child("mode"), file.mode);
    }
}

fn items(errors: &mut FieldErrors, path: &Path<'_>, items: Option<&[KeyToPath]>) {
    for (i, item) in items.into_iter().flatten().enumerate() {
        let path = path.index(i);
        if item.key.is_empty() {
            errors.required(&path.child("key"), "");
        }
        if item.path.is_empty() {
            errors.required(&path.child("path"), "");
        } else {
            local_file(errors, &path.child("path"), &item.path);
        }
        mode(errors, &path.child("mode"), item.mode);
    }
}

fn mode(errors: &mut FieldErrors, path: &Path<'_>, mode: Option<i32>) {
    if let Some(mode) = mode
        && !(0..=0o777).contains(&mode)
    {
        errors.invalid(path, &mode, MODE);
    }
}

/// A path inside a volume.
fn local_path(errors: &mut FieldErrors, path: &Path<'_>, text: &str) {
    if text.starts_with('/') {
        errors.invalid(path, text, "must be a relative path");
    }
    no_backsteps(errors, path, text);
}

/// A path inside a volume whose bookkeeping names start with `..`.
fn local_file(errors: &mut FieldErrors, path: &Path<'_>, text: &str) {
    local_path(errors, path, text);
    if text.starts_with("..") && !text.starts_with("../") {
        errors.invalid(path, text, "must not start with '..'");
    }
}

pub(crate) fn no_backsteps(errors: &mut FieldErrors, path: &Path<'_>, text: &str) {
    if text.split('/').any(|part| part == "..") {
        errors.invalid(path, text, "must not contain '..'");
    }
    // A path with a NUL would be cut short by the system calls that use it.
    if text.contains('\0') {
        errors.invalid(path, text, "must not contain a NUL character");
    }
}

pub(crate) fn mounts(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    list: &[VolumeMount],
    volumes: &HashSet<&str>,
) {
    let mut paths = HashSet::new();
    for (i, mount) in list.iter().enumerate() {
        let path = path.index(i);
        if mount.name.is_empty() {
            errors.required(&path.child("name"), "");
        } else if !volumes.contains(mount.name.as_str()) {
            errors.not_found(&path.child("name"), &mount.name);
        }
        if mount.mount_path.is_empty() {
            errors.required(&path.child("mountPath"), "");
        }
        if !paths.insert(&mount.mount_path) {
            errors.invalid(&path.child("mountPath"), &mount.mount_path, "must be unique");
        }
        let sub_path = mount.sub_path.as_deref().unwrap_or_default();
        let sub_path_expr = mount.sub_path_expr.as_deref().unwrap_or_default();
        if !sub_path.is_empty() {
            local_path(errors, &path.child("subPath"), sub_path);
        }
        if !sub_path_expr.is_empty() {
            if !sub_path.is_empty() {
                errors.invalid(
                    &path.child("subPathExpr"),
                    sub_path_expr,
                    "subPathExpr and subPath are mutually exclusive",
                );
            }
            local_path(errors, &path.child("subPathExpr"), sub_path_expr);
        }
        if let Some(propagation) = &mount.mount_propagation {
            errors.one_of(
                &path.child("mountPropagation"),
                propagation,
                &["Bidirectional", "HostToContainer", "None"],
            );
        }
        recursive_read_only(errors, &path.child("recursiveReadOnly"), mount);
    }
}

/// Whether what is mounted inside the volume is to be read only, too.
fn recursive_read_only(errors: &mut FieldErrors, path: &Path<'_>, mount: &VolumeMount) {
    match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount.read_only != Some(true) {
                errors.forbidden(path, "may only be specified when readOnly is true");
            }
            if mount.mount_propagation.as_deref().is_some_and(|propagation| propagation != "None") {
                let what = "may only be specified when mountPropagation is None or not specified";
                errors.forbidden(path, what);
            }
        }
        Some(other) => errors.unsupported(path, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}
