//! Rules of the files in volumes: their names, modes, and the fields of the pod that they contain.

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath};

use super::field::{FieldErrors, Path};
use super::{environment, paths};

const BOTH: &str = "fieldRef and resourceFieldRef can not be specified simultaneously";

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Validates files that contain fields of the pod.
pub(crate) fn downward_files(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    files: Option<&[DownwardAPIVolumeFile]>,
) {
    for file in files.into_iter().flatten() {
        if file.path.is_empty() {
            errors.required(&path.child("path"), "");
        } else {
            paths::local_file(errors, &path.child("path"), &file.path);
        }
        match (&file.field_ref, &file.resource_field_ref) {
            (Some(field), other) => {
                environment::pod_field(errors, &path.child("fieldRef"), field, environment::FILE_FIELDS);
                if other.is_some() {
                    errors.invalid(path, "resource", BOTH);
                }
            }
            (None, Some(resource)) => {
                let path = path.child("resourceFieldRef");
                if resource.container_name.as_deref().unwrap_or_default().is_empty() {
                    errors.required(&path.child("containerName"), "");
                } else {
                    environment::container_resource(errors, &path, resource);
                }
            }
            (None, None) => errors.required(path, "one of fieldRef and resourceFieldRef is required"),
        }
        mode(errors, &path.child("mode"), file.mode);
    }
}

/// Validates the selection of keys that become files.
pub(crate) fn items(errors: &mut FieldErrors, path: &Path<'_>, items: Option<&[KeyToPath]>) {
    for (path, item) in path.each(items.into_iter().flatten()) {
        if item.key.is_empty() {
            errors.required(&path.child("key"), "");
        }
        if item.path.is_empty() {
            errors.required(&path.child("path"), "");
        } else {
            paths::local_file(errors, &path.child("path"), &item.path);
        }
        mode(errors, &path.child("mode"), item.mode);
    }
}

/// Validates the permissions of a file.
pub(crate) fn mode(errors: &mut FieldErrors, path: &Path<'_>, mode: Option<i32>) {
    if let Some(mode) = mode
        && !(0..=0o777).contains(&mode)
    {
        errors.invalid(path, &mode, MODE);
    }
}
