//! DefaultStorageClass: a claim without a class gets the default one, if there is one (VOL-2).

use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use super::Request;
use crate::ApiError;
use object::Object;
use object::storage::{default_class, names_class};

#[expect(clippy::unnecessary_wraps, reason = "the shape of every admission plugin")]
pub(super) fn admit(request: &mut Request<'_>, object: &mut Object) -> Result<(), ApiError> {
    if object.get::<PersistentVolumeClaim>().is_none_or(names_class) {
        return Ok(());
    }
    let default = default_class(request.api.list_as(None));
    if let (Some(claim), Some(class)) = (object.get_mut::<PersistentVolumeClaim>(), default) {
        claim.spec.get_or_insert_default().storage_class_name = Some(class.name().into());
    }
    Ok(())
}
