//! Kubernetes' v1 defaulting of parts that kinds share: fields that a manifest leaves out of a pod spec or a volume.
//! The defaults of single kinds are in `kinds`.

mod image;
pub mod pod_spec;
pub mod volumes;

/// Sets an optional field if it is missing.
pub fn set<T>(field: &mut Option<T>, value: impl Into<T>) {
    if field.is_none() {
        *field = Some(value.into());
    }
}

/// Sets an optional text if it is missing or empty.
pub fn set_text(field: &mut Option<String>, value: &str) {
    if field.as_deref().is_none_or(str::is_empty) {
        *field = Some(value.to_string());
    }
}
