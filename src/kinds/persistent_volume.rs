//! Persistent volumes.

use k8s_openapi::api::core::v1::{
    NodeSelectorRequirement, PersistentVolume, PersistentVolumeSpec, PersistentVolumeStatus,
    VolumeNodeAffinity,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Map, Value, json};

use super::columns::Column;
use super::resource::{Resource, SelectableField, selectable, text};
use apimachinery::default::{set, set_text, volumes as default_volumes};
use apimachinery::validate::spec_diff::{self, differences};
use apimachinery::validate::storage::{access_modes, class_name, volume_mode};
use apimachinery::validate::volume_sources::{self, VolumeParent};
use apimachinery::validate::{FieldErrors, Path, resources, selector, volumes};
use object::ObjectPart as _;
use object::owner;
use object::quantity::{Amount, ResourceList};
use object::storage::UNSET;
use object::well_known::label::RENAMED_NODE_LABELS;

/// The fields of a spec other than volume sources.
const NO_SOURCES: &[&str] = &[
    "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
    "storageClassName", "volumeAttributesClassName", "volumeMode",
];

const RECLAIM_POLICIES: &[&str] = &["Delete", "Recycle", "Retain"];

impl Resource for PersistentVolume {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Capacity", "The capacity of the volume.", |volume, _| {
            json!(storage_text(volume.spec.as_ref().and_then(|s| s.capacity.as_ref())))
        }),
        Column::text("Access Modes", "The ways in which the volume may be mounted.", |volume, _| {
            json!(modes_text(volume.spec.as_ref().and_then(|s| s.access_modes.as_deref())))
        }),
        Column::text(
            "Reclaim Policy",
            "The policy for the volume after its claim is deleted.",
            |volume, _| {
                let policy = volume.spec.as_ref().and_then(|s| s.persistent_volume_reclaim_policy.as_deref());
                json!(policy.unwrap_or_default())
            },
        ),
        Column::text("Status", "The volume's phase.", |volume, _| {
            let phase = volume.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default();
            json!(if owner::is_terminating(&volume.metadata) { "Terminating" } else { phase })
        }),
        Column::text("Claim", "The claim that the volume is bound to.", |volume, _| {
            let part = |text: &Option<String>| text.clone().unwrap_or_default();
            let claim = volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref());
            json!(claim.map_or_else(String::new, |c| format!("{}/{}", part(&c.namespace), part(&c.name))))
        }),
        Column::text("StorageClass", "The storage class of the volume.", |volume, _| {
            json!(volume.spec.as_ref().and_then(|s| s.storage_class_name.as_deref()).unwrap_or_default())
        }),
        Column::text("VolumeAttributesClass", "The VolumeAttributesClass of the volume.", |volume, _| {
            json!(
                volume.spec.as_ref().and_then(|s| s.volume_attributes_class_name.as_deref()).unwrap_or(UNSET)
            )
        }),
        Column::text("Reason", "The reason for the volume's phase.", |volume, _| {
            json!(volume.status.as_ref().and_then(|s| s.reason.as_deref()).unwrap_or_default())
        }),
        Column::age(),
        Column::wide("VolumeMode", "Whether the volume is a file system or a block device.", |volume, _| {
            json!(volume.spec.as_ref().and_then(|s| s.volume_mode.as_deref()).unwrap_or(UNSET))
        }),
    ];
    const SELECTABLE: &'static [SelectableField<Self>] =
        &[selectable("name", |volume| text(volume.metadata.name.as_ref()))];

    fn apply_defaults(&mut self) {
        let status = self.status.get_or_insert_with(PersistentVolumeStatus::default);
        set_text(&mut status.phase, "Pending");
        let spec = self.spec.get_or_insert_default();
        set_text(&mut spec.persistent_volume_reclaim_policy, "Retain");
        set_text(&mut spec.volume_mode, "Filesystem");
        if let Some(path) = &mut spec.host_path {
            set(&mut path.type_, "");
        }
        if let Some(source) = &mut spec.azure_disk {
            default_volumes::azure_disk(source);
        }
        if let Some(source) = &mut spec.iscsi {
            set_text(&mut source.iscsi_interface, "default");
        }
        if let Some(source) = &mut spec.rbd {
            default_volumes::rbd(&mut source.pool, &mut source.user, &mut source.keyring);
        }
        if let Some(source) = &mut spec.scale_io {
            set_text(&mut source.storage_mode, "ThinProvisioned");
            set_text(&mut source.fs_type, "xfs");
        }
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("spec");
        let Some(spec) = &self.spec else { return errors.required(&path, "") };
        let name = self.metadata.name.as_deref().unwrap_or_default();
        volume_spec(errors, &path, spec, name);
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        let (Some(now), Some(before)) = (&self.spec, &old.spec) else { return };
        let (mut after, original) = (source_fields(now), source_fields(before));
        // The Secret for expansion may be added later.
        let of_expansion = |fields: &Map<String, Value>| fields.get("csi")?.get(EXPANSION_SECRET).cloned();
        if of_expansion(&original).is_none()
            && original.contains_key("csi")
            && let Some(Value::Object(driver)) = after.get_mut("csi")
        {
            driver.remove(EXPANSION_SECRET);
        }
        if after != original {
            let shown = differences(&spec_diff::VOLUME_SOURCE, &original.into(), &after.into());
            let detail = format!("spec.persistentvolumesource is immutable after creation\n{shown}");
            errors.forbidden(&Path::root("spec.persistentvolumesource"), detail);
        }
        errors.immutable(&Path::root("volumeMode"), &now.volume_mode, &before.volume_mode);
        if before.node_affinity.is_some() && !same_affinity(now, before) {
            let shown = object::json_of(&now.node_affinity);
            let detail = "field is immutable, except for updating from beta label to GA";
            errors.invalid(&Path::root("nodeAffinity"), &shown, detail);
        }
        if before.volume_attributes_class_name.is_some() && now.volume_attributes_class_name.is_none() {
            let path = Path::root("spec.volumeAttributesClassName");
            errors.forbidden(&path, "update from non-nil value to nil is forbidden");
        }
    }
}

/// The field of a CSI volume that may be set after the volume's creation.
const EXPANSION_SECRET: &str = "controllerExpandSecretRef";

/// Returns whether two versions of a volume select the same nodes, up to renamed labels.
fn same_affinity(now: &PersistentVolumeSpec, before: &PersistentVolumeSpec) -> bool {
    let renamed = |old: &NodeSelectorRequirement, new: &NodeSelectorRequirement| {
        let new_name = RENAMED_NODE_LABELS.iter().find(|(name, ..)| *name == old.key).map(|(.., name)| *name);
        let key = if new_name == Some(&new.key) { new.key.clone() } else { old.key.clone() };
        NodeSelectorRequirement { key, ..old.clone() }
    };
    let (mut before, now) = (before.node_affinity.clone(), now.node_affinity.as_ref());
    let terms = |affinity: Option<&VolumeNodeAffinity>| {
        let required = affinity.and_then(|affinity| affinity.required.clone());
        required.map(|required| required.node_selector_terms).unwrap_or_default()
    };
    let new_terms = terms(now);
    let old_terms = before.as_mut().and_then(|b| b.required.as_mut()).map(|r| &mut r.node_selector_terms);
    for (old, new) in old_terms.into_iter().flatten().zip(&new_terms) {
        let expressions = old.match_expressions.iter_mut().flatten();
        for (old, new) in expressions.zip(new.match_expressions.iter().flatten()) {
            *old = renamed(old, new);
        }
    }
    before.as_ref() == now
}

/// Validates the spec of the volume with this name.
fn volume_spec(errors: &mut FieldErrors, path: &Path<'_>, spec: &PersistentVolumeSpec, name: &str) {
    access_modes(errors, &path.child("accessModes"), spec.access_modes.as_deref(), "");
    capacity(errors, &path.child("capacity"), spec);
    let policy = spec.persistent_volume_reclaim_policy.as_deref().unwrap_or_default();
    if !policy.is_empty() {
        errors.one_of(&path.child("persistentVolumeReclaimPolicy"), policy, RECLAIM_POLICIES);
    }
    node_affinity(errors, path, spec);
    sources(errors, path, spec, name);
    class_name(errors, &path.child("storageClassName"), spec.storage_class_name.as_deref());
    volume_mode(errors, &path.child("volumeMode"), spec.volume_mode.as_deref());
    attributes_class(errors, path, spec);
}

/// Validates an inline volume in a VolumeAttachment: a CSI volume without the fields that bind it to a claim.
pub(super) fn inline_spec(errors: &mut FieldErrors, path: &Path<'_>, spec: &PersistentVolumeSpec) {
    const FORBIDDEN_INLINE: &str = "may not be specified in the context of inline volumes";
    let retains = |policy: &String| policy.is_empty() || policy == "Retain";
    for (field, is_given, why) in [
        ("claimRef", spec.claim_ref.is_some(), FORBIDDEN_INLINE),
        ("capacity", spec.capacity.as_ref().is_some_and(|capacity| !capacity.is_empty()), FORBIDDEN_INLINE),
        (
            "persistentVolumeReclaimPolicy",
            !spec.persistent_volume_reclaim_policy.as_ref().is_none_or(retains),
            "may only be Retain in the context of inline volumes",
        ),
        ("nodeAffinity", spec.node_affinity.is_some(), FORBIDDEN_INLINE),
        (
            "storageClassName",
            spec.storage_class_name.as_ref().is_some_and(|name| !name.is_empty()),
            FORBIDDEN_INLINE,
        ),
        (
            "volumeMode",
            spec.volume_mode.as_ref().is_some_and(|mode| mode != "Filesystem"),
            "may not specify volumeMode other than Filesystem in the context of inline volumes",
        ),
    ] {
        if is_given {
            errors.forbidden(&path.child(field), why);
        }
    }
    if spec.csi.is_none() {
        errors.required(&path.child("csi"), "has to be specified in the context of inline volumes");
    }
    access_modes(errors, &path.child("accessModes"), spec.access_modes.as_deref(), "");
    sources(errors, path, spec, "");
    attributes_class(errors, path, spec);
}

fn attributes_class(errors: &mut FieldErrors, path: &Path<'_>, spec: &PersistentVolumeSpec) {
    let Some(class) = &spec.volume_attributes_class_name else { return };
    if class.is_empty() {
        errors.required(&path.child("volumeAttributesClassName"), "an empty string is disallowed");
    }
    class_name(errors, &path.child("volumeAttributesClassName"), Some(class));
    if spec.csi.is_none() {
        let detail = "has to be specified when using volumeAttributesClassName";
        errors.required(&path.child("csi"), detail);
    }
}

fn capacity(errors: &mut FieldErrors, path: &Path<'_>, spec: &PersistentVolumeSpec) {
    let capacity = spec.capacity.as_ref();
    if capacity.is_none_or(std::collections::BTreeMap::is_empty) {
        errors.required(path, "");
    }
    if capacity.is_none_or(|list| list.len() > 1 || !list.contains_key("storage")) {
        let shown = object::json_of(capacity);
        errors.unsupported(path, &shown, &["storage"]);
    }
    for (name, amount) in capacity.into_iter().flatten() {
        let path = path.key(name);
        if resources::quantity(errors, &path, amount).is_some_and(Amount::is_zero) {
            errors.invalid(&path, amount, "must be greater than zero");
        }
    }
}

fn node_affinity(errors: &mut FieldErrors, path: &Path<'_>, spec: &PersistentVolumeSpec) {
    let Some(affinity) = &spec.node_affinity else { return };
    let path = path.child("nodeAffinity");
    let path = path.child("required");
    let Some(required) = &affinity.required else {
        return errors.required(&path, "must specify required node constraints");
    };
    selector::node_selector(errors, &path, required);
}

/// Requires exactly one source, and validates it.
fn sources(errors: &mut FieldErrors, path: &Path<'_>, spec: &PersistentVolumeSpec, name: &str) {
    let fields = source_fields(spec);
    match volume_sources::sources(errors, path, &fields, VolumeParent::PersistentVolume { name }) {
        Some("hostPath") => {
            if let Some(source) = &spec.host_path {
                volumes::host_path(errors, &path.child("hostPath"), source);
            }
        }
        Some("local") if spec.node_affinity.is_none() => {
            errors.required(&path.child("nodeAffinity"), "Local volume requires node affinity");
        }
        _ => {}
    }
    let root = spec.host_path.as_ref().is_some_and(|source| is_root(&source.path));
    if root && spec.persistent_volume_reclaim_policy.as_deref() == Some("Recycle") {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.forbidden(&path.child("persistentVolumeReclaimPolicy"), detail);
    }
}

/// Returns the volume sources by field.
fn source_fields(spec: &PersistentVolumeSpec) -> Map<String, Value> {
    match spec.to_value() {
        Value::Object(mut fields) => {
            fields.retain(|field, _| !NO_SOURCES.contains(&field.as_str()));
            fields
        }
        _ => Map::new(),
    }
}

fn is_root(path: &str) -> bool {
    path.starts_with('/') && path.split('/').all(|part| matches!(part, "" | "."))
}

/// Returns the amount of storage in a list of resources; empty if there is none.
pub(super) fn storage_text(list: Option<&ResourceList>) -> &str {
    list.and_then(|l| l.get("storage")).map_or("", |Quantity(text)| text.as_str())
}

/// Returns `RWO,ROX`: each mode once, in Kubernetes' order.
pub(super) fn modes_text(modes: Option<&[String]>) -> String {
    let has = |mode: &str| modes.unwrap_or_default().iter().any(|m| m == mode);
    [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ]
    .into_iter()
    .filter(|(mode, _)| has(mode))
    .map(|(_, short)| short)
    .collect::<Vec<_>>()
    .join(",")
}
