//! Rules of volumes: what one stands for stays.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeSpec};
use serde_json::{Map, Value};

use super::super::field::{FieldErrors, Path};
use super::super::spec_diff::{self, differences};
use super::super::{resources, selector, volumes};
use super::{access_modes, class_name, volume_mode};
use crate::object::quantity::Amount;

/// The fields of a spec that are no source.
const NO_SOURCES: &[&str] = &[
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

const RECLAIM_POLICIES: &[&str] = &["Delete", "Recycle", "Retain"];

pub(in crate::api::validate) fn volume(errors: &mut FieldErrors, volume: &PersistentVolume) {
    let path = Path::root("spec");
    let Some(spec) = &volume.spec else { return errors.required(&path, "") };
    access_modes(errors, &path.child("accessModes"), spec.access_modes.as_deref(), "");
    capacity(errors, &path.child("capacity"), spec);
    let policy = spec.persistent_volume_reclaim_policy.as_deref().unwrap_or_default();
    if !policy.is_empty() {
        errors.one_of(&path.child("persistentVolumeReclaimPolicy"), policy, RECLAIM_POLICIES);
    }
    node_affinity(errors, spec);
    sources(errors, &path, spec);
    let root = spec.host_path.as_ref().is_some_and(|source| is_root(&source.path));
    if root && policy == "Recycle" {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.forbidden(&path.child("persistentVolumeReclaimPolicy"), detail);
    }
    class_name(errors, &path.child("storageClassName"), spec.storage_class_name.as_deref());
    volume_mode(errors, &path.child("volumeMode"), spec.volume_mode.as_deref());
    let attributes = spec.volume_attributes_class_name.as_deref();
    if attributes.is_some() && spec.csi.is_none() {
        let path = path.child("volumeAttributesClassName");
        errors.required(&path, "has to be specified with CSI volume");
    }
    class_name(errors, &path.child("volumeAttributesClassName"), attributes);
}

fn capacity(errors: &mut FieldErrors, path: &Path<'_>, spec: &PersistentVolumeSpec) {
    let capacity = spec.capacity.as_ref();
    if capacity.is_none_or(std::collections::BTreeMap::is_empty) {
        errors.required(path, "");
    }
    if capacity.is_none_or(|list| list.len() > 1 || !list.contains_key("storage")) {
        let shown = serde_json::to_value(capacity).unwrap_or_default();
        errors.unsupported_value(path, &shown, &["storage"]);
    }
    for (name, amount) in capacity.into_iter().flatten() {
        let path = path.key(name);
        if resources::quantity(errors, &path, amount).is_some_and(Amount::is_zero) {
            errors.invalid(&path, amount, "must be greater than zero");
        }
    }
}

fn node_affinity(errors: &mut FieldErrors, spec: &PersistentVolumeSpec) {
    let Some(affinity) = &spec.node_affinity else { return };
    let path = Path::root("spec.nodeAffinity");
    let path = path.child("required");
    let Some(required) = &affinity.required else {
        return errors.required(&path, "must specify required node constraints");
    };
    let path = path.child("nodeSelectorTerms");
    if required.node_selector_terms.is_empty() {
        errors.required(&path, "must have at least one node selector term");
    }
    for (i, term) in required.node_selector_terms.iter().enumerate() {
        selector::node_selector_term(errors, &path.index(i), term);
    }
}

/// Exactly one source, and the rules of those that lead to files of this machine.
fn sources(errors: &mut FieldErrors, path: &Path<'_>, spec: &PersistentVolumeSpec) {
    let given = source_fields(spec);
    for field in given.keys().skip(1) {
        errors.forbidden(&path.child(field), "may not specify more than 1 volume type");
    }
    if given.is_empty() {
        errors.required(path, "must specify a volume type");
    }
    if let Some(source) = &spec.host_path {
        volumes::host_path(errors, &path.child("hostPath"), source);
    }
    if let Some(source) = &spec.local {
        let path = path.child("local.path");
        if source.path.is_empty() {
            errors.required(&path, "");
        } else {
            volumes::no_backsteps(errors, &path, &source.path);
        }
        if spec.node_affinity.is_none() {
            errors.required(&Path::root("metadata.annotations"), "Local volume requires node affinity");
        }
    }
}

/// What the volume stands for, by field.
fn source_fields(spec: &PersistentVolumeSpec) -> Map<String, Value> {
    match serde_json::to_value(spec) {
        Ok(Value::Object(mut fields)) => {
            fields.retain(|field, _| !NO_SOURCES.contains(&field.as_str()));
            fields
        }
        _ => Map::new(),
    }
}

fn is_root(path: &str) -> bool {
    path.starts_with('/') && path.split('/').all(|part| matches!(part, "" | "."))
}

pub(in crate::api::validate) fn volume_update(
    errors: &mut FieldErrors,
    new: &PersistentVolume,
    old: &PersistentVolume,
) {
    volume(errors, new);
    let (Some(now), Some(before)) = (&new.spec, &old.spec) else { return };
    let (after, original) = (source_fields(now), source_fields(before));
    if after != original {
        let shown = differences(&spec_diff::VOLUME_SOURCE, &original, &after);
        let detail = format!("spec.persistentvolumesource is immutable after creation\n{shown}");
        errors.forbidden(&Path::root("spec.persistentvolumesource"), detail);
    }
    errors.immutable(&Path::root("volumeMode"), &now.volume_mode, &before.volume_mode);
    if before.node_affinity.is_some() && now.node_affinity != before.node_affinity {
        let shown = serde_json::to_value(&now.node_affinity).unwrap_or_default();
        errors.invalid(&Path::root("nodeAffinity"), &shown, "field is immutable");
    }
}
