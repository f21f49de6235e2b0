//! Rules of volumes, claims and storage classes.

mod claim;
mod class;
mod volume;

use super::field::{FieldErrors, Path};
use super::names;

pub(super) use claim::{claim, claim_spec, claim_status, claim_update};
pub(super) use class::{class, class_update};
pub(super) use volume::{volume, volume_update};

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];
const BETA_CLASS: &str = crate::object::storage::BETA_CLASS;

/// The ways in which a volume is used; `detail` is what is said when none is given.
fn access_modes(errors: &mut FieldErrors, path: &Path<'_>, modes: Option<&[String]>, detail: &str) {
    let modes = modes.unwrap_or_default();
    if modes.is_empty() {
        errors.required(path, detail);
    }
    for mode in modes {
        errors.one_of(path, mode, ACCESS_MODES);
    }
    let exclusive = modes.iter().any(|mode| mode == "ReadWriteOncePod");
    if exclusive && modes.iter().any(|mode| mode != "ReadWriteOncePod") {
        errors.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
}

fn volume_mode(errors: &mut FieldErrors, path: &Path<'_>, mode: Option<&str>) {
    if let Some(mode) = mode {
        errors.one_of(path, mode, VOLUME_MODES);
    }
}

/// The name of a storage class or the like; none at all is fine.
fn class_name(errors: &mut FieldErrors, path: &Path<'_>, name: Option<&str>) {
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        errors.invalid_each(path, name, names::dns_1123_subdomain(name));
    }
}
