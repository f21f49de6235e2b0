//! Rules of paths: of the machine's, and of files in volumes, which may not lead out of those.

use super::field::{FieldErrors, Path};

/// A path of the machine's that must be given and does not lead upwards.
pub(super) fn backed(errors: &mut FieldErrors, path: &Path<'_>, text: &str) {
    if text.is_empty() {
        errors.required(path, "");
    } else {
        no_backsteps(errors, path, text);
    }
}

/// A path inside a volume.
pub(super) fn local(errors: &mut FieldErrors, path: &Path<'_>, text: &str) {
    if text.starts_with('/') {
        errors.invalid(path, text, "must be a relative path");
    }
    no_backsteps(errors, path, text);
}

/// A path inside a volume whose bookkeeping names start with `..`.
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
    // A path with a NUL would be cut short by the system calls that use it.
    if text.contains('\0') {
        errors.invalid(path, text, "must not contain a NUL character");
    }
}
