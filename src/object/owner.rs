//! Owner references: `metadata.ownerReferences`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::Object;

/// Returns the reference to the object's controller, if it has one.
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.as_ref()?.iter().find(|r| r.controller == Some(true))
}

/// Returns true if the object with this uid is the controller.
pub fn is_controlled_by(meta: &ObjectMeta, uid: &str) -> bool {
    controller_of(meta).is_some_and(|r| r.uid == uid)
}

/// Returns the reference by which `owner` controls an object; it blocks the owner's foreground deletion.
pub fn controller_reference(owner: &Object) -> OwnerReference {
    OwnerReference {
        api_version: owner.api_version().into_owned(),
        kind: owner.kind().info().name.to_string(),
        name: owner.name().to_string(),
        uid: owner.uid().to_string(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Returns true if the object's deletion has been requested.
pub fn is_terminating(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}
