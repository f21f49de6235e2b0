//! Reads volumes, claims and storage classes, and the relations between them.
//!
//! Pure functions, shared by the controllers that bind, the scheduler that chooses and the kubelet that mounts.

mod claims;
mod disk;
mod matching;

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Node, ObjectReference, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use super::finalizers::has_finalizer;
use super::node_selector::NodeTerm;
use super::quantity::Amount;
use super::{Key, Kind, SharedObject};
pub use claims::{ClaimUse, claims_of, ephemeral_claim_name, is_created_for};
pub use disk::{
    ATTACHER_FINALIZER, DISK_DRIVER, DISK_PATH, Disk, attachment_name, directory_of, disk, handle_of,
    is_attached_to, is_out_of_service, unique_volume_name, volumes_in_use,
};
pub use matching::{Mismatch, VolumeRequester, best_match, find_match, same_mode, satisfies};

/// On a claim: its binding was completed once.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// On a claim or volume: a controller, not a user, bound it.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// On a volume: the provisioner that created it and will delete it.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// On a claim: the node that the scheduler chose for its first consumer.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// On a claim: the provisioner that should create its volume.
pub const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// [`STORAGE_PROVISIONER`] for older provisioners.
pub const BETA_STORAGE_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// The storage class of a claim or volume, from before there was a field for it; it still takes precedence over the
/// field.
pub const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// The text in tables for a storage field that is not set.
pub const UNSET: &str = "<unset>";
/// The annotation that makes a StorageClass the class of claims that name none.
pub const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// [`DEFAULT_CLASS`] in older manifests.
pub(crate) const BETA_DEFAULT_CLASS: &str = "storageclass.beta.kubernetes.io/is-default-class";
/// The finalizer that keeps a claim while pods use it.
pub const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// The finalizer that keeps a volume while a claim is bound to it.
pub const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
/// The finalizer that keeps a provisioned volume until its storage is deleted.
pub const PROVISIONER_FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
/// The provisioner of classes with manually created volumes.
pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// Podium's own provisioner: a directory below the data directory for each claim.
pub const DIRECTORY_PROVISIONER: &str = "podium.dev/directory";

/// Returns an annotation's value.
pub fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

pub(crate) fn is_default(class: &StorageClass) -> bool {
    [DEFAULT_CLASS, BETA_DEFAULT_CLASS].iter().any(|key| annotation(&class.metadata, key) == Some("true"))
}

/// Returns the class for claims that name none: of several defaults the newest, of these the first by name.
pub fn default_class(classes: Vec<SharedObject<StorageClass>>) -> Option<SharedObject<StorageClass>> {
    let age = |class: &StorageClass| class.metadata.creation_timestamp.clone();
    let first = |a: &SharedObject<StorageClass>, b: &SharedObject<StorageClass>| {
        age(b).cmp(&age(a)).then_with(|| a.name().cmp(b.name()))
    };
    classes.into_iter().filter(|class| is_default(class)).min_by(first)
}

/// Returns true if binding waits for the claim's first pod.
pub fn waits_for_consumer(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
}

/// Returns the class that a claim requests; empty if it names none, or requests a volume without a class.
pub fn claim_class(claim: &PersistentVolumeClaim) -> &str {
    let field = || claim.spec.as_ref()?.storage_class_name.as_deref();
    annotation(&claim.metadata, BETA_CLASS).or_else(field).unwrap_or_default()
}

/// Returns true if a claim names a class, even the empty one.
pub fn names_class(claim: &PersistentVolumeClaim) -> bool {
    annotation(&claim.metadata, BETA_CLASS).is_some()
        || claim.spec.as_ref().is_some_and(|spec| spec.storage_class_name.is_some())
}

/// Returns the class of a volume; empty when it has none.
pub fn volume_class(volume: &PersistentVolume) -> &str {
    let field = || volume.spec.as_ref()?.storage_class_name.as_deref();
    annotation(&volume.metadata, BETA_CLASS).or_else(field).unwrap_or_default()
}

/// Returns the requested size.
pub fn claim_size(claim: &PersistentVolumeClaim) -> Amount {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    Amount::in_list(resources.and_then(|r| r.requests.as_ref()), "storage")
}

/// Returns the capacity.
pub fn volume_size(volume: &PersistentVolume) -> Amount {
    Amount::in_list(volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()), "storage")
}

/// Returns the volume a claim is bound to or requests by name; `None` if it has none.
pub fn volume_name(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.volume_name.as_deref().filter(|name| !name.is_empty())
}

/// Returns the claim a volume is bound to or reserved for.
pub fn claim_ref(volume: &PersistentVolume) -> Option<&ObjectReference> {
    volume.spec.as_ref()?.claim_ref.as_ref()
}

/// Returns the key of the claim that a reference names.
pub fn claim_key(reference: &ObjectReference) -> Key {
    Key::new(reference.namespace.clone().unwrap_or_default(), reference.name.clone().unwrap_or_default())
}

/// Returns the uid in a reference to a claim; `None` if any claim of that name is meant.
pub fn claim_uid(reference: &ObjectReference) -> Option<&str> {
    reference.uid.as_deref().filter(|uid| !uid.is_empty())
}

/// Returns true if a volume is reserved for this claim, and not for an earlier one with its name.
pub fn is_bound_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    claim_ref(volume).is_some_and(|reference| {
        claim_key(reference) == Key::of(&claim.metadata)
            && claim_uid(reference).is_none_or(|uid| claim.metadata.uid.as_deref() == Some(uid))
    })
}

/// Reserves a volume for this claim. If no user had reserved it, records that a controller did.
pub fn keep_for(volume: &mut PersistentVolume, claim: &SharedObject<PersistentVolumeClaim>) {
    let by_user = is_bound_to(volume, claim);
    let known = claim_ref(volume).and_then(claim_uid) == Some(claim.uid());
    if !by_user {
        let annotations = volume.metadata.annotations.get_or_insert_default();
        annotations.insert(BOUND_BY_CONTROLLER.into(), "yes".into());
    }
    if !by_user || !known {
        let info = Kind::PersistentVolumeClaim.info();
        volume.spec.get_or_insert_default().claim_ref = Some(ObjectReference {
            api_version: Some(info.api_version()),
            kind: Some(info.name.into()),
            namespace: claim.metadata.namespace.clone(),
            name: claim.metadata.name.clone(),
            uid: claim.metadata.uid.clone(),
            resource_version: claim.metadata.resource_version.clone(),
            field_path: None,
        });
    }
}

/// Returns true if a claim is bound to a volume and the binding is complete.
pub fn is_fully_bound(claim: &PersistentVolumeClaim) -> bool {
    volume_name(claim).is_some() && annotation(&claim.metadata, BIND_COMPLETED).is_some()
}

/// Returns `status.phase`; a claim without one is pending.
pub fn claim_phase(claim: &PersistentVolumeClaim) -> &str {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

/// Returns `status.phase`; a volume without one is pending.
pub fn volume_phase(volume: &PersistentVolume) -> &str {
    volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

/// Returns the treatment of a volume after the deletion of its claim.
pub fn reclaim_policy(volume: &PersistentVolume) -> &str {
    let field = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    field.unwrap_or("Retain")
}

/// Returns true if a node can reach a volume; a volume without node affinity is reachable from every node.
pub fn is_reachable_from(volume: &PersistentVolume, node: &Node) -> bool {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
    affinity.and_then(|affinity| affinity.required.as_ref()).is_none_or(|required| {
        required.node_selector_terms.iter().any(|term| NodeTerm::new(term).matches(node))
    })
}

/// Returns true if a class provisions volumes for this node.
pub fn provisions_for(class: &StorageClass, node: &Node) -> bool {
    let terms = class.allowed_topologies.as_deref().unwrap_or_default();
    let label = |key: &str| node.metadata.labels.as_ref()?.get(key);
    terms.is_empty()
        || terms.iter().any(|term| {
            let expressions = term.match_label_expressions.as_deref().unwrap_or_default();
            // As in Kubernetes, a term without expressions matches nothing.
            !expressions.is_empty()
                && expressions.iter().all(|e| label(&e.key).is_some_and(|value| e.values.contains(value)))
        })
}

/// Returns the path of a pod's volume, on a node with this `pods_dir` for its pods' directories.
pub fn pod_volume_directory(pods_dir: &Path, uid: &str, volume: &str) -> PathBuf {
    pods_dir.join(uid).join("volumes").join(volume)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_youngest_default_class_is_the_default_vol_2() {
        let class = |name: &str, second: u8, key: &str, value: &str| {
            let class = json!({"metadata": {"name": name, "annotations": {key: value},
                "creationTimestamp": format!("2026-11-21T00:00:{second:02}Z")}, "provisioner": "p"});
            SharedObject::from_value(serde_json::from_value::<StorageClass>(class).unwrap())
        };
        let chosen = |classes: &[&SharedObject<StorageClass>]| {
            let classes = classes.iter().copied().cloned().collect();
            default_class(classes).map(|class| class.name().to_string())
        };
        let (old, young) = (class("old", 1, DEFAULT_CLASS, "true"), class("young", 2, DEFAULT_CLASS, "true"));
        let twin = class("twin", 2, BETA_DEFAULT_CLASS, "true");
        let other = class("other", 9, DEFAULT_CLASS, "false");
        assert_eq!(chosen(&[&old, &other]).as_deref(), Some("old"));
        assert_eq!(chosen(&[&old, &young, &other]).as_deref(), Some("young"));
        assert_eq!(chosen(&[&young, &old, &twin]).as_deref(), Some("twin"), "by name among equals");
        assert_eq!(chosen(&[&other]), None);
    }

    #[test]
    fn topologies_of_volumes_and_classes_vol_2() {
        let node: Node =
            serde_json::from_value(json!({"metadata": {"name": "n1", "labels": {"zone": "a"}}})).unwrap();
        let terms = |expressions: serde_json::Value| -> PersistentVolume {
            serde_json::from_value(json!({"metadata": {}, "spec": {"nodeAffinity": {"required":
                {"nodeSelectorTerms": expressions}}}}))
            .unwrap()
        };
        let expression =
            |value: &str| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [value]}]});
        for (terms_given, expected) in [
            (json!([expression("a")]), true),
            (json!([expression("b")]), false),
            (json!([expression("b"), expression("a")]), true),
            (json!([{}]), false),
        ] {
            assert_eq!(is_reachable_from(&terms(terms_given.clone()), &node), expected, "{terms_given}");
        }
        assert!(is_reachable_from(&PersistentVolume::default(), &node));
        for (topologies, expected) in [
            (json!(null), true),
            (json!([{"matchLabelExpressions": [{"key": "zone", "values": ["a", "c"]}]}]), true),
            (json!([{"matchLabelExpressions": [{"key": "zone", "values": ["b"]}]}]), false),
            (json!([{}]), false),
        ] {
            let class: StorageClass = serde_json::from_value(
                json!({"metadata": {}, "provisioner": "p", "allowedTopologies": topologies}),
            )
            .unwrap();
            assert_eq!(provisions_for(&class, &node), expected, "{topologies}");
        }
    }
}
