//! PersistentVolumeClaimResize: a claim grows only if its class permits it (VOL-2).

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;

use super::Request;
use crate::{Api, ApiError};
use object::storage::{claim_class, claim_phase, claim_size};
use object::{Key, Kind, Object};

pub(super) fn validate(request: &Request<'_>, object: &Object) -> Result<(), ApiError> {
    let old = request.old.and_then(|old| old.get::<PersistentVolumeClaim>());
    let (Some(new), Some(old)) = (object.get::<PersistentVolumeClaim>(), old) else { return Ok(()) };
    if claim_size(new) <= claim_size(old) {
        return Ok(());
    }
    let refuse = |reason: &str| Err(ApiError::forbidden(Kind::PersistentVolumeClaim, object.name(), reason));
    if claim_phase(old) != "Bound" {
        return refuse("Only bound persistent volume claims can be expanded");
    }
    if may_grow(request.api, new, old) {
        return Ok(());
    }
    refuse(
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
         support resize",
    )
}

fn may_grow(api: &Api, new: &PersistentVolumeClaim, old: &PersistentVolumeClaim) -> bool {
    let class = claim_class(new);
    !class.is_empty()
        && class == claim_class(old)
        && api
            .get_as::<StorageClass>(&Key::new("", class))
            .is_ok_and(|class| class.allow_volume_expansion == Some(true))
}
