//! Reads an endpoint of an EndpointSlice: its state, and its pod.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::Endpoint;

/// The state of an endpoint that connections may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointState {
    /// It gets new connections.
    Ready,
    /// It serves while it terminates, and gets new connections only if no endpoint is ready.
    Draining,
}

/// Returns an endpoint's state by kube-proxy's rule (`CategorizeEndpoints`); `None` if no connections may go to it.
pub fn state(endpoint: &Endpoint) -> Option<EndpointState> {
    if is_ready(endpoint) {
        return Some(EndpointState::Ready);
    }
    let conditions = endpoint.conditions.as_ref()?;
    let is_draining = conditions.terminating == Some(true) && conditions.serving != Some(false);
    is_draining.then_some(EndpointState::Draining)
}

/// Returns true if an endpoint is ready, as it is without this condition.
pub fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
}

/// Returns the reference to an endpoint's pod; `None` if the endpoint is no pod.
pub fn pod(endpoint: &Endpoint) -> Option<&ObjectReference> {
    endpoint.target_ref.as_ref().filter(|target| target.kind.as_deref() == Some("Pod"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_endpoint_that_is_not_ready_serves_only_while_it_terminates_net_2() {
        for (conditions, expected) in [
            (json!(null), Some(EndpointState::Ready)),
            (json!({}), Some(EndpointState::Ready)),
            (json!({"ready": true, "terminating": true}), Some(EndpointState::Ready)),
            (json!({"ready": false}), None),
            (json!({"ready": false, "serving": true}), None),
            (json!({"ready": false, "terminating": true}), Some(EndpointState::Draining)),
            (json!({"ready": false, "serving": false, "terminating": true}), None),
            (json!({"ready": false, "serving": true, "terminating": true}), Some(EndpointState::Draining)),
        ] {
            let endpoint = json!({"addresses": ["10.0.0.1"], "conditions": conditions});
            assert_eq!(state(&serde_json::from_value(endpoint).unwrap()), expected, "{conditions}");
        }
    }
}
