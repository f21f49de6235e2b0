//! Rules of volumes and their mounts; refuses paths that lead out of a volume.

use std::collections::{HashMap, HashSet};

use base::quote::quote;
use k8s_openapi::api::core::v1::{
    Container, EphemeralVolumeSource, HostPathVolumeSource, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use object::ObjectPart as _;
use object::quantity::Amount;

use super::field::{FieldErrors, Path};
use super::pod_context::PodContext;
use super::volume_sources::{self, VolumeParent};
use super::{files, metadata, names, paths, projection, resources, storage};

const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// Validates a pod's volumes and returns the valid ones by name.
pub fn volumes<'a>(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    list: &'a [Volume],
    pod: Option<&ObjectMeta>,
) -> HashMap<&'a str, &'a Volume> {
    let pod_name = pod.and_then(|pod| pod.name.as_deref()).unwrap_or_default();
    let made = |volume: &Volume| {
        (volume.ephemeral.is_some() && !pod_name.is_empty()).then(|| format!("{pod_name}-{}", volume.name))
    };
    let made: HashSet<String> = list.iter().filter_map(made).collect();
    let mut seen = HashMap::new();
    for (path, volume) in path.each(list.iter()) {
        let before = errors.count();
        source(errors, &path, volume, pod);
        errors.required_name(&path.child("name"), &volume.name, names::dns_1123_label);
        if seen.contains_key(volume.name.as_str()) {
            errors.duplicate(&path.child("name"), &volume.name);
        }
        if errors.count() == before {
            seen.insert(volume.name.as_str(), volume);
        }
        let claim = volume.persistent_volume_claim.as_ref().map(|claim| &claim.claim_name);
        if let Some(claim) = claim.filter(|claim| made.contains(*claim)) {
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            errors.invalid(&path.child("persistentVolumeClaim.claimName"), claim, detail);
        }
    }
    seen
}

/// Requires exactly one source, and validates it.
fn source(errors: &mut FieldErrors, path: &Path<'_>, volume: &Volume, pod: Option<&ObjectMeta>) {
    let fields = volume.to_value();
    let Some(fields) = fields.as_object() else { return };
    let holder = VolumeParent::Pod { volume: &volume.name };
    match volume_sources::sources(errors, path, fields, holder) {
        Some("emptyDir") => {
            if let Some(limit) = volume.empty_dir.as_ref().and_then(|source| source.size_limit.as_ref()) {
                size_limit(errors, &path.child("emptyDir.sizeLimit"), limit);
            }
        }
        Some("hostPath") => {
            if let Some(source) = &volume.host_path {
                host_path(errors, &path.child("hostPath"), source);
            }
        }
        Some("ephemeral") => {
            if let Some(source) = &volume.ephemeral {
                ephemeral(errors, &path.child("ephemeral"), source);
            }
            claim_name(errors, &path.child("name"), &volume.name, pod);
        }
        Some("secret") => {
            if let Some(source) = &volume.secret {
                let path = path.child("secret");
                if source.secret_name.as_deref().unwrap_or_default().is_empty() {
                    errors.required(&path.child("secretName"), "");
                }
                files::mode(errors, &path.child("defaultMode"), source.default_mode);
                files::items(errors, &path.child("items"), source.items.as_deref());
            }
        }
        Some("configMap") => {
            if let Some(source) = &volume.config_map {
                let path = path.child("configMap");
                if source.name.is_empty() {
                    errors.required(&path.child("name"), "");
                }
                files::mode(errors, &path.child("defaultMode"), source.default_mode);
                files::items(errors, &path.child("items"), source.items.as_deref());
            }
        }
        Some("downwardAPI") => {
            if let Some(source) = &volume.downward_api {
                let path = path.child("downwardAPI");
                files::mode(errors, &path.child("defaultMode"), source.default_mode);
                files::downward_files(errors, &path, source.items.as_deref());
            }
        }
        Some("projected") => {
            if let Some(source) = &volume.projected {
                projection::projected(errors, &path.child("projected"), source);
            }
        }
        Some("persistentVolumeClaim")
            if volume.persistent_volume_claim.as_ref().is_some_and(|claim| claim.claim_name.is_empty()) =>
        {
            errors.required(&path.child("persistentVolumeClaim.claimName"), "");
        }
        Some("image") => {
            let reference = volume.image.as_ref().and_then(|image| image.reference.as_deref());
            // A template may leave out the reference: controllers and admission can fill it in.
            if pod.is_some() && reference.unwrap_or_default().is_empty() {
                errors.required(&path.child("image.reference"), "");
            }
        }
        _ => {}
    }
}

fn size_limit(errors: &mut FieldErrors, path: &Path<'_>, limit: &Quantity) {
    if Amount::parse(&limit.0).is_ok_and(Amount::is_negative) {
        errors.forbidden(path, "SizeLimit field must be a valid resource quantity");
    } else {
        resources::quantity(errors, path, limit);
    }
}

/// Validates the name of a claim created for a pod's volume, which consists of the names of both.
fn claim_name(errors: &mut FieldErrors, path: &Path<'_>, volume: &str, pod: Option<&ObjectMeta>) {
    let Some(pod) = pod.and_then(|pod| pod.name.as_deref()).filter(|name| !name.is_empty()) else { return };
    let claim = format!("{pod}-{volume}");
    if !volume.is_empty() {
        for wrong in names::dns_1123_subdomain(&claim) {
            errors.invalid(path, volume, format!("PVC name {}: {wrong}", quote(&claim)));
        }
    }
}

/// Validates a path of the machine.
pub fn host_path(errors: &mut FieldErrors, path: &Path<'_>, source: &HostPathVolumeSource) {
    paths::backed(errors, &path.child("path"), &source.path);
    if !source.path.is_empty() {
        errors.one_of(&path.child("type"), source.type_.as_deref().unwrap_or_default(), HOST_PATH_TYPES);
    }
}

/// Validates a claim template in a pod's volume.
fn ephemeral(errors: &mut FieldErrors, path: &Path<'_>, source: &EphemeralVolumeSource) {
    let path = path.child("volumeClaimTemplate");
    let Some(template) = &source.volume_claim_template else { return errors.required(&path, "") };
    if let Some(meta) = &template.metadata {
        let path = path.child("metadata");
        metadata::labels(errors, &path.child("labels"), meta.labels.as_ref());
        metadata::annotations(errors, &path.child("annotations"), meta.annotations.as_ref());
        for field in metadata::beyond_labels_and_annotations(meta) {
            errors.forbidden(&path.child(&field), "cannot be set");
        }
    }
    storage::claim_spec(errors, &path.child("spec"), &template.spec);
}

/// Validates the paths at which a container has the pod's volumes, as file systems and as devices.
pub fn mounts(errors: &mut FieldErrors, path: &Path<'_>, container: &Container, pod: &PodContext<'_>) {
    let list = path.child("volumeMounts");
    let devices = container.volume_devices.as_deref().unwrap_or_default();
    let privileged = container.security_context.as_ref().is_some_and(|c| c.privileged == Some(true));
    let mut paths = HashSet::new();
    for (path, mount) in list.each(container.volume_mounts.iter().flatten()) {
        if mount.name.is_empty() {
            errors.required(&path.child("name"), "");
        } else if !pod.volumes.contains_key(mount.name.as_str()) {
            errors.not_found(&path.child("name"), &mount.name);
        }
        if mount.mount_path.is_empty() {
            errors.required(&path.child("mountPath"), "");
        }
        if !paths.insert(&mount.mount_path) {
            errors.invalid(&path.child("mountPath"), &mount.mount_path, "must be unique");
        }
        if devices.iter().any(|device| device.name == mount.name) {
            errors.invalid(&path.child("name"), &mount.name, "must not already exist in volumeDevices");
        }
        if devices.iter().any(|device| device.device_path == mount.mount_path) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.invalid(&path.child("mountPath"), &mount.mount_path, detail);
        }
        let sub_path = mount.sub_path.as_deref().unwrap_or_default();
        let sub_path_expr = mount.sub_path_expr.as_deref().unwrap_or_default();
        if !sub_path.is_empty() {
            paths::local(errors, &path.child("subPath"), sub_path);
        }
        if !sub_path_expr.is_empty() {
            if !sub_path.is_empty() {
                errors.invalid(
                    &path.child("subPathExpr"),
                    sub_path_expr,
                    "subPathExpr and subPath are mutually exclusive",
                );
            }
            paths::local(errors, &path.child("subPathExpr"), sub_path_expr);
        }
        if let Some(propagation) = &mount.mount_propagation {
            let path = path.child("mountPropagation");
            errors.one_of(&path, propagation, &["Bidirectional", "HostToContainer", "None"]);
            if propagation == "Bidirectional" && !privileged {
                let detail = "Bidirectional mount propagation is available only to privileged containers";
                errors.forbidden(&path, detail);
            }
        }
        recursive_read_only(errors, &path.child("recursiveReadOnly"), mount);
    }
    volume_devices(errors, &path.child("volumeDevices"), container, pod);
}

/// Validates the block devices of a container: they must be volumes from claims.
fn volume_devices(errors: &mut FieldErrors, list: &Path<'_>, container: &Container, pod: &PodContext<'_>) {
    let mounts = container.volume_mounts.as_deref().unwrap_or_default();
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    for (path, device) in list.each(container.volume_devices.iter().flatten()) {
        let (at_name, at_path) = (path.child("name"), path.child("devicePath"));
        let (name, place) = (device.name.as_str(), device.device_path.as_str());
        if name.is_empty() {
            errors.required(&at_name, "");
        } else if !names.insert(name) {
            errors.invalid(&at_name, name, "must be unique");
        }
        match pod.volumes.get(name) {
            None => errors.not_found(&at_name, name),
            Some(volume) if volume.persistent_volume_claim.is_none() && volume.ephemeral.is_none() => {
                let detail =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(&at_name, name, detail);
            }
            Some(_) => {}
        }
        if place.is_empty() {
            errors.required(&at_path, "");
        }
        if paths.contains(place) {
            errors.invalid(&at_path, place, "must be unique");
        }
        if place.split('/').any(|part| part == "..") {
            errors.invalid(&at_path, place, "can not contain backsteps ('..')");
        } else {
            paths.insert(place);
        }
        if mounts.iter().any(|mount| mount.name == name) {
            errors.invalid(&at_name, name, "must not already exist in volumeMounts");
        }
        if mounts.iter().any(|mount| mount.mount_path == place) {
            errors.invalid(&at_path, place, "must not already exist as a path in volumeMounts");
        }
    }
}

/// Validates the setting for mounts inside a read-only volume, which may become read-only, too.
fn recursive_read_only(errors: &mut FieldErrors, path: &Path<'_>, mount: &VolumeMount) {
    match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount.read_only != Some(true) {
                errors.forbidden(path, "may only be specified when readOnly is true");
            }
            if mount.mount_propagation.as_deref().is_some_and(|propagation| propagation != "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.forbidden(path, detail);
            }
        }
        Some(other) => errors.unsupported(path, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}
