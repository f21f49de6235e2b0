//! Finalizers of an object's metadata.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Returns true if the object has this finalizer.
pub fn has_finalizer(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().flatten().any(|f| f == finalizer)
}

/// Adds a finalizer, unless the object has it.
pub fn add_finalizer(meta: &mut ObjectMeta, finalizer: &str) {
    if !has_finalizer(meta, finalizer) {
        meta.finalizers.get_or_insert_default().push(finalizer.to_owned());
    }
}

/// Removes a finalizer.
pub fn remove_finalizer(meta: &mut ObjectMeta, finalizer: &str) {
    if let Some(finalizers) = &mut meta.finalizers {
        finalizers.retain(|f| f != finalizer);
    }
}
