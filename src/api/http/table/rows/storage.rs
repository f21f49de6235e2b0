//! Volumes, claims and storage classes.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Value, json};

use crate::object::owner;
use crate::object::quantity::ResourceList;

const UNSET: &str = "<unset>";

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

pub(super) fn class(age: Value, class: &StorageClass) -> Vec<Value> {
    let annotations = class.metadata.annotations.as_ref();
    let default = annotations.and_then(|a| a.get(DEFAULT_CLASS)).is_some_and(|v| v == "true");
    let name = class.metadata.name.as_deref().unwrap_or_default();
    vec![
        json!(if default { format!("{name} (default)") } else { name.into() }),
        json!(class.provisioner),
        json!(class.reclaim_policy.as_deref().unwrap_or("Delete")),
        json!(class.volume_binding_mode.as_deref().unwrap_or(UNSET)),
        json!(class.allow_volume_expansion.unwrap_or(false)),
        age,
    ]
}

pub(super) fn volume(name: Value, age: Value, volume: &PersistentVolume) -> Vec<Value> {
    let spec = volume.spec.as_ref();
    let status = volume.status.as_ref();
    let phase = status.and_then(|s| s.phase.as_deref()).unwrap_or_default();
    let claim = spec.and_then(|s| s.claim_ref.as_ref()).map_or_else(String::new, |claim| {
        let part = |text: &Option<String>| text.clone().unwrap_or_default();
        format!("{}/{}", part(&claim.namespace), part(&claim.name))
    });
    vec![
        name,
        json!(storage(spec.and_then(|s| s.capacity.as_ref()))),
        json!(modes_text(spec.and_then(|s| s.access_modes.as_deref()))),
        json!(spec.and_then(|s| s.persistent_volume_reclaim_policy.as_deref()).unwrap_or_default()),
        json!(if owner::is_terminating(&volume.metadata) { "Terminating" } else { phase }),
        json!(claim),
        json!(spec.and_then(|s| s.storage_class_name.as_deref()).unwrap_or_default()),
        json!(spec.and_then(|s| s.volume_attributes_class_name.as_deref()).unwrap_or(UNSET)),
        json!(status.and_then(|s| s.reason.as_deref()).unwrap_or_default()),
        age,
        json!(spec.and_then(|s| s.volume_mode.as_deref()).unwrap_or(UNSET)),
    ]
}

pub(super) fn claim(name: Value, age: Value, claim: &PersistentVolumeClaim) -> Vec<Value> {
    let spec = claim.spec.as_ref();
    let status = claim.status.as_ref();
    let phase = status.and_then(|s| s.phase.as_deref()).unwrap_or_default();
    let volume = spec.and_then(|s| s.volume_name.as_deref()).unwrap_or_default();
    // What a claim has got is known once it is bound.
    let got = status.filter(|_| !volume.is_empty());
    vec![
        name,
        json!(if owner::is_terminating(&claim.metadata) { "Terminating" } else { phase }),
        json!(volume),
        json!(storage(got.and_then(|s| s.capacity.as_ref()))),
        json!(modes_text(got.and_then(|s| s.access_modes.as_deref()))),
        json!(spec.and_then(|s| s.storage_class_name.as_deref()).unwrap_or_default()),
        json!(spec.and_then(|s| s.volume_attributes_class_name.as_deref()).unwrap_or(UNSET)),
        age,
        json!(spec.and_then(|s| s.volume_mode.as_deref()).unwrap_or(UNSET)),
    ]
}

fn storage(list: Option<&ResourceList>) -> &str {
    list.and_then(|l| l.get("storage")).map_or("", |Quantity(text)| text.as_str())
}

/// `RWO,ROX`: each mode once, in the order Kubernetes prints them.
fn modes_text(modes: Option<&[String]>) -> String {
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
