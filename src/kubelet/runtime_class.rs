//! The handlers of the runtime: a pod's runtime class must name one of them, or no container of the pod runs.

use k8s_openapi::api::core::v1::{NodeRuntimeHandler, NodeRuntimeHandlerFeatures, PodSpec};
use k8s_openapi::api::node::v1::RuntimeClass;

use api::Api;
use base::quote::quote;
use object::Key;

/// The names of the handlers, all of which run containers as processes of this machine. `runc` is the usual name of the
/// plain runtime, and the one in documents that require no other.
const HANDLERS: [&str; 3] = ["", "podium", "runc"];

/// Checks that there is a handler for a pod; the error is in the words of Kubernetes and containerd.
pub(super) fn find_handler(api: &Api, spec: &PodSpec) -> Result<(), String> {
    let Some(name) = spec.runtime_class_name.as_ref().filter(|name| !name.is_empty()) else { return Ok(()) };
    let class = api
        .get_as::<RuntimeClass>(&Key::new("", name))
        .map_err(|_| format!("runtimeclass.node.k8s.io {} not found", quote(name)))?;
    if HANDLERS.contains(&class.handler.as_str()) {
        return Ok(());
    }
    Err(format!(
        "rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for {} is configured",
        quote(&class.handler)
    ))
}

/// The value of a node's `status.runtimeHandlers`.
pub(super) fn handlers(features: &NodeRuntimeHandlerFeatures) -> Vec<NodeRuntimeHandler> {
    let one = |name: &str| NodeRuntimeHandler { name: Some(name.into()), features: Some(features.clone()) };
    HANDLERS.map(one).into()
}
