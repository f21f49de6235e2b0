//! Rules that persistent volumes and their claims share.

use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;

use super::field::{FieldErrors, Path};
use super::{names, resources, selector};
use object::quantity::{Amount, ResourceList};

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// The maximum size of a driver's name.
const MAX_DRIVER_BYTES: usize = 63;
const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];

/// Validates the access modes; `detail` is the error's detail if there are none.
pub fn access_modes(errors: &mut FieldErrors, path: &Path<'_>, modes: Option<&[String]>, detail: &str) {
    let modes = modes.unwrap_or_default();
    if modes.is_empty() {
        errors.required(path, detail);
    }
    for mode in modes {
        errors.one_of(path, mode, ACCESS_MODES);
    }
    let exclusive = modes.iter().any(|mode| mode == "ReadWriteOncePod");
    let shared = |mode: &String| mode != "ReadWriteOncePod" && ACCESS_MODES.contains(&mode.as_str());
    if exclusive && modes.iter().any(shared) {
        errors.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
}

/// Validates the mode of a volume.
pub fn volume_mode(errors: &mut FieldErrors, path: &Path<'_>, mode: Option<&str>) {
    if let Some(mode) = mode {
        errors.one_of(path, mode, VOLUME_MODES);
    }
}

/// Validates the optional name of a storage class or a similar object.
pub fn class_name(errors: &mut FieldErrors, path: &Path<'_>, name: Option<&str>) {
    errors.optional_name(path, name, names::dns_1123_subdomain);
}

/// Validates the spec of a claim, also in claim templates.
pub fn claim_spec(errors: &mut FieldErrors, path: &Path<'_>, spec: &PersistentVolumeClaimSpec) {
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
    data_sources(errors, path, spec);
    let attributes = spec.volume_attributes_class_name.as_deref();
    class_name(errors, &path.child("volumeAttributesClassName"), attributes);
}

/// Validates the fields for a claim's initial content. If both are set, they must name the same object, and
/// `dataSourceRef` must not name a namespace.
fn data_sources(errors: &mut FieldErrors, path: &Path<'_>, spec: &PersistentVolumeClaimSpec) {
    let (own, any) = (spec.data_source.as_ref(), spec.data_source_ref.as_ref());
    if let Some(own) = own {
        data_source(errors, &path.child("dataSource"), own.api_group.as_deref(), &own.kind, &own.name);
    }
    let Some(any) = any else { return };
    let at = path.child("dataSourceRef");
    data_source(errors, &at, any.api_group.as_deref(), &any.kind, &any.name);
    let namespace = any.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    if let Some(namespace) = namespace {
        errors.invalid_each(&at.child("namespace"), namespace, names::dns_1123_label(namespace));
    }
    let Some(own) = own else { return };
    let detail = if namespace.is_some() {
        "may not be specified when dataSourceRef.namespace is specified"
    } else if (&own.api_group, &own.kind, &own.name) == (&any.api_group, &any.kind, &any.name) {
        return;
    } else {
        "must match dataSourceRef"
    };
    errors.invalid(path, &path.child("dataSource").to_string(), detail);
}

fn data_source(errors: &mut FieldErrors, path: &Path<'_>, group: Option<&str>, kind: &str, name: &str) {
    for (field, text) in [("name", name), ("kind", kind)] {
        if text.is_empty() {
            errors.required(&path.child(field), "");
        }
    }
    match group.unwrap_or_default() {
        "" if kind != "PersistentVolumeClaim" => {
            let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errors.invalid(path, kind, detail);
        }
        "" => {}
        group => errors.invalid_each(&path.child("apiGroup"), group, names::dns_1123_subdomain(group)),
    }
}

/// Validates the name of a CSI driver.
pub fn driver_name(errors: &mut FieldErrors, path: &Path<'_>, name: &str) {
    if name.is_empty() {
        errors.required(path, "");
    } else if name.len() > MAX_DRIVER_BYTES {
        errors.too_long(path, MAX_DRIVER_BYTES);
    } else {
        errors.invalid_each(path, name, names::dns_1123_subdomain(&name.to_lowercase()));
    }
}

/// Returns the requests of a claim by resource.
pub fn requests(spec: &PersistentVolumeClaimSpec) -> Option<&ResourceList> {
    spec.resources.as_ref().and_then(|resources| resources.requests.as_ref())
}
