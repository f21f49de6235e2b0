//! Rules that persistent volumes and their claims share.

use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;

use super::field::{FieldErrors, Path};
use super::{names, resources, selector};
use object::quantity::{Amount, ResourceList};

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];

/// The ways in which a volume is used; `detail` is what is said when none is given.
pub(crate) fn access_modes(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    modes: Option<&[String]>,
    detail: &str,
) {
    let modes = modes.unwrap_or_default();
    if modes.is_empty() {
        errors.required(path, detail);
    }
    for mode in modes {
        errors.one_of(path, mode, ACCESS_MODES);
    }
    let exclusive = modes.iter().any(|mode| mode == "ReadWriteOncePod");
    if exclusive && modes.iter().any(|mode| mode != "ReadWriteOncePod") {
        errors.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
}

pub(crate) fn volume_mode(errors: &mut FieldErrors, path: &Path<'_>, mode: Option<&str>) {
    if let Some(mode) = mode {
        errors.one_of(path, mode, VOLUME_MODES);
    }
}

/// The name of a storage class or the like; none at all is fine.
pub(crate) fn class_name(errors: &mut FieldErrors, path: &Path<'_>, name: Option<&str>) {
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        errors.invalid_each(path, name, names::dns_1123_subdomain(name));
    }
}

/// What a claim asks for; also in the templates of claims.
pub(crate) fn claim_spec(errors: &mut FieldErrors, path: &Path<'_>, spec: &PersistentVolumeClaimSpec) {
    let modes = spec.access_modes.as_deref();
    access_modes(errors, &path.child("accessModes"), modes, "at least 1 access mode is required");
    if let Some(labels) = &spec.selector {
        selector::label_selector(errors, &path.child("selector"), labels);
    }
    let resources_path = path.child("resources");
    let storage = resources_path.key("storage");
    match requests(spec).and_then(|list| list.get("storage")) {
        None => errors.required(&storage, ""),
        Some(size) => {
            if resources::quantity(errors, &storage, size).is_some_and(Amount::is_zero) {
                errors.invalid(&storage, size, "must be greater than zero");
            }
        }
    }
    class_name(errors, &path.child("storageClassName"), spec.storage_class_name.as_deref());
    volume_mode(errors, &path.child("volumeMode"), spec.volume_mode.as_deref());
    if let Some(source) = &spec.data_source {
        let path = path.child("dataSource");
        for (field, text) in [("name", &source.name), ("kind", &source.kind)] {
            if text.is_empty() {
                errors.required(&path.child(field), "");
            }
        }
        let group = source.api_group.as_deref().unwrap_or_default();
        if group.is_empty() && source.kind != "PersistentVolumeClaim" {
            errors.invalid(&path, &source.kind, "");
        }
    }
    let attributes = spec.volume_attributes_class_name.as_deref();
    class_name(errors, &path.child("volumeAttributesClassName"), attributes);
}

/// What a claim asks for, by resource.
pub(crate) fn requests(spec: &PersistentVolumeClaimSpec) -> Option<&ResourceList> {
    spec.resources.as_ref().and_then(|resources| resources.requests.as_ref())
}
