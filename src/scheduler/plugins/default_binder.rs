//! DefaultBinder: binds through the API's binding subresource.

use k8s_openapi::api::core::v1::Node;

use crate::framework::{BindError, Binding, Plugin, PluginId};
use api::ApiError;
use object::Key;

pub(super) struct DefaultBinder;

impl Plugin for DefaultBinder {
    fn id(&self) -> PluginId {
        PluginId::DefaultBinder
    }

    fn bind(&self, binding: &Binding<'_>) -> Option<Result<(), BindError>> {
        let Binding { api, pod, node } = binding;
        // The API binds to any name: a pod on a node that was removed meanwhile would only be cleaned up.
        if let Err(error) = api.get_as::<Node>(&Key::new("", *node)) {
            return Some(Err(BindError::Failed(error.to_string())));
        }
        Some(match api.bind(&pod.key(), pod.uid(), node) {
            Ok(_) => Ok(()),
            Err(error @ (ApiError::NotFound { .. } | ApiError::Conflict { .. })) => {
                Err(BindError::Overtaken(error.to_string()))
            }
            Err(error) => Err(BindError::Failed(error.to_string())),
        })
    }
}
