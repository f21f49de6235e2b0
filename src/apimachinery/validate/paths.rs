//! Rules of paths of the machine, and of paths in volumes, which may not lead out of them.

use super::field::{FieldErrors, Path};

/// Validates a path of the machine, which is required and may not lead upwards.
pub(super) fn backed(errors: &mut FieldErrors, path: &Path<'_>, text: &str) {
    if text.is_empty() {
        errors.required(path, "");
    } else {
        no_backsteps(errors, path, text);
    }
}

/// Validates a path inside a volume.
pub(super) fn local(errors: &mut FieldErrors, path: &Path<'_>, text: &str) {
    if text.starts_with('/') {
        errors.invalid(path, text, "must be a relative path");
    }
    no_backsteps(errors, path, text);
}

/// Validates a file path inside a volume that reserves names beginning with `..` for itself.
pub(super) fn local_file(errors: &mut FieldErrors, path: &Path<'_>, text: &str) {
    local(errors, path, text);
    if text.starts_with("..") && !text.starts_with("../") {
        errors.invalid(path, text, "must not start with '..'");
    }
}

fn no_backsteps(errors: &mut FieldErrors, path: &Path<'_>, text: &str) {
    if text.split('/').any(|part| part == "..") {
        errors.invalid(path, text, "must not contain '..'");
    }
    // System calls would end the path at NUL.
    if text.contains('\0') {
        errors.invalid(path, text, "must not contain a NUL character");
    }
}
