//! StorageObjectInUseProtection: adds the finalizer that protects volumes and claims in use, at their
//! creation (VOL-2).

use super::Request;
use crate::ApiError;
use object::storage::{CLAIM_PROTECTION, VOLUME_PROTECTION, has_finalizer};
use object::{Kind, Object};

#[expect(clippy::unnecessary_wraps, reason = "the shape of every admission plugin")]
pub(super) fn admit(_request: &mut Request<'_>, object: &mut Object) -> Result<(), ApiError> {
    let finalizer = match object.kind() {
        Kind::PersistentVolume => VOLUME_PROTECTION,
        Kind::PersistentVolumeClaim => CLAIM_PROTECTION,
        _ => return Ok(()),
    };
    if !has_finalizer(object.meta(), finalizer) {
        object.meta_mut().finalizers.get_or_insert_default().push(finalizer.into());
    }
    Ok(())
}
