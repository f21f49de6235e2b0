//! Rules of ConfigMaps and Secrets: keys that cannot lead out of a directory, sizes, immutability.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use super::field::{FieldErrors, Path};
use super::names;

/// All values of one object together.
const MAX_BYTES: usize = 1024 * 1024;

const FROZEN: &str = "field is immutable when `immutable` is set";

pub(super) fn config_map(errors: &mut FieldErrors, map: &ConfigMap) {
    let mut bytes = 0;
    let path = Path::root("data");
    for (key, value) in map.data.iter().flatten() {
        errors.invalid_each(&path.key(key), key, names::config_key(key));
        if map.binary_data.as_ref().is_some_and(|b| b.contains_key(key)) {
            errors.invalid(&path.key(key), key, "duplicate of key present in binaryData");
        }
        bytes += value.len();
    }
    let path = Path::root("binaryData");
    for (key, value) in map.binary_data.iter().flatten() {
        errors.invalid_each(&path.key(key), key, names::config_key(key));
        bytes += value.0.len();
    }
    if bytes > MAX_BYTES {
        // The API server names no field here.
        errors.too_long(&Path::root("[]"), MAX_BYTES);
    }
}

pub(super) fn config_map_update(errors: &mut FieldErrors, new: &ConfigMap, old: &ConfigMap) {
    if old.immutable == Some(true) {
        frozen(errors, "immutable", new.immutable == old.immutable);
        frozen(errors, "data", new.data == old.data);
        frozen(errors, "binaryData", new.binary_data == old.binary_data);
    }
    config_map(errors, new);
}

fn frozen(errors: &mut FieldErrors, field: &str, same: bool) {
    if !same {
        errors.forbidden(&Path::root(field), FROZEN);
    }
}

pub(super) fn secret(errors: &mut FieldErrors, secret: &Secret) {
    let path = Path::root("data");
    let mut bytes = 0;
    for (key, value) in secret.data.iter().flatten() {
        errors.invalid_each(&path.key(key), key, names::config_key(key));
        bytes += value.0.len();
    }
    if bytes > MAX_BYTES {
        errors.too_long(&path, MAX_BYTES);
    }
    secret_type(errors, secret);
}

/// What secrets of the well-known types must hold.
fn secret_type(errors: &mut FieldErrors, secret: &Secret) {
    const ACCOUNT: &str = "kubernetes.io/service-account.name";
    let value = |key: &str| secret.data.as_ref().and_then(|d| d.get(key));
    let path = Path::root("data");
    let required: &[&str] = match secret.type_.as_deref().unwrap_or_default() {
        "kubernetes.io/service-account-token" => {
            let annotations = secret.metadata.annotations.as_ref();
            if annotations.and_then(|a| a.get(ACCOUNT)).is_none_or(String::is_empty) {
                errors.required(&Path::root("metadata.annotations").key(ACCOUNT), "");
            }
            &[]
        }
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/basic-auth" => {
            if value("username").is_none() && value("password").is_none() {
                errors.required(&path.key("username"), "");
                errors.required(&path.key("password"), "");
            }
            &[]
        }
        _ => &[],
    };
    for key in required {
        match value(key) {
            None => errors.required(&path.key(key), ""),
            Some(content) if key.starts_with(".docker") => {
                if let Err(error) = serde_json::from_slice::<serde_json::Value>(&content.0) {
                    errors.invalid(&path.key(key), "<secret contents redacted>", error.to_string());
                }
            }
            Some(_) => {}
        }
    }
}

pub(super) fn secret_update(errors: &mut FieldErrors, new: &Secret, old: &Secret) {
    errors.immutable(&Path::root("type"), &new.type_, &old.type_);
    if old.immutable == Some(true) {
        frozen(errors, "immutable", new.immutable == old.immutable);
        frozen(errors, "data", new.data == old.data);
    }
    secret(errors, new);
}
