//! Objects for the store's tests.

use k8s_openapi::api::core::v1::ConfigMap;

use object::Object;

/// Returns a ConfigMap of this name.
pub(super) fn config_map(name: &str) -> Object {
    let mut object = Object::new(ConfigMap::default());
    object.meta_mut().name = Some(name.into());
    object
}
