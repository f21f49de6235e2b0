//! Secrets.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, Value, json};

use super::columns::Column;
use super::config_map::{MAX_BYTES, frozen};
use super::resource::{Resource, SelectableField, selectable, text};
use apimachinery::default::set_text;
use apimachinery::validate::{FieldErrors, Path, names};
use object::well_known::annotation::SERVICE_ACCOUNT_NAME;
use object::well_known::secret_type::{DOCKERCFG, DOCKERCONFIGJSON, SERVICE_ACCOUNT_TOKEN};

impl Resource for Secret {
    const COUNTED_BY_PLURAL: bool = true;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Type", "Used to facilitate programmatic handling of secret data.", |secret, _| {
            json!(secret.type_.as_deref().unwrap_or_default())
        }),
        Column::text("Data", "The number of entries in the data.", |secret, _| {
            json!(secret.data.as_ref().map_or(0, BTreeMap::len).to_string())
        }),
        Column::age(),
    ];
    const SELECTABLE: &'static [SelectableField<Self>] =
        &[selectable("type", |secret| text(secret.type_.as_ref()))];

    fn apply_defaults(&mut self) {
        set_text(&mut self.type_, "Opaque");
        if let Some(plain) = self.string_data.take() {
            let data = self.data.get_or_insert_with(BTreeMap::new);
            data.extend(plain.into_iter().map(|(key, text)| (key, ByteString(text.into_bytes()))));
        }
    }

    fn carry_over(&mut self, old: &Self) {
        if self.type_.as_ref().is_none_or(String::is_empty) {
            self.type_.clone_from(&old.type_);
        }
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("data");
        let mut bytes = 0;
        for (key, value) in self.data.iter().flatten() {
            errors.invalid_each(&path.key(key), key, names::config_key(key));
            bytes += value.0.len();
        }
        if bytes > MAX_BYTES {
            errors.too_long(&path, MAX_BYTES);
        }
        secret_type(errors, self);
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        errors.immutable(&Path::root("type"), &self.type_, &old.type_);
        if old.immutable == Some(true) {
            frozen(errors, "immutable", self.immutable == old.immutable);
            frozen(errors, "data", self.data == old.data);
        }
        self.validate(errors);
    }
}

/// Validates the data that well-known types of secrets require.
fn secret_type(errors: &mut FieldErrors, secret: &Secret) {
    let value = |key: &str| secret.data.as_ref().and_then(|d| d.get(key));
    let path = Path::root("data");
    let required: &[&str] = match secret.type_.as_deref().unwrap_or_default() {
        SERVICE_ACCOUNT_TOKEN => {
            let annotations = secret.metadata.annotations.as_ref();
            if annotations.and_then(|a| a.get(SERVICE_ACCOUNT_NAME)).is_none_or(String::is_empty) {
                errors.required(&Path::root("metadata.annotations").key(SERVICE_ACCOUNT_NAME), "");
            }
            &[]
        }
        DOCKERCFG => &[".dockercfg"],
        DOCKERCONFIGJSON => &[".dockerconfigjson"],
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
            Some(content) if *key == "ssh-privatekey" && content.0.is_empty() => {
                errors.required(&path.key(key), "");
            }
            Some(content) if key.starts_with(".docker") => {
                if let Err(error) = serde_json::from_slice::<Map<String, Value>>(&content.0) {
                    errors.invalid(&path.key(key), "<secret contents redacted>", error.to_string());
                }
            }
            Some(_) => {}
        }
    }
}
