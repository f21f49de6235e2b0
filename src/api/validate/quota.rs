//! Rules of resource quotas.

use k8s_openapi::api::core::v1::ResourceQuota;

use super::field::{FieldErrors, Path};
use super::resources;

pub(super) fn quota(errors: &mut FieldErrors, quota: &ResourceQuota) {
    let Some(spec) = &quota.spec else { return };
    resources::amounts(errors, &Path::root("spec.hard"), spec.hard.as_ref());
}
