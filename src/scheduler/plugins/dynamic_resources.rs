//! DynamicResources: a pod that claims devices waits until they are allocated. Podium has no allocator, so the pod
//! waits for ever. Its condition says so; the pod is never run without its devices (API-17).

use crate::framework::{Plugin, PluginId};
use crate::state::pod_info::PodInfo;

pub(super) struct DynamicResources;

impl Plugin for DynamicResources {
    fn id(&self) -> PluginId {
        PluginId::DynamicResources
    }

    fn pre_enqueue(&self, pod: &PodInfo) -> Result<(), &'static str> {
        let claims = pod.pod.spec.as_ref().and_then(|spec| spec.resource_claims.as_ref());
        if claims.is_some_and(|claims| !claims.is_empty()) {
            return Err(
                "waiting for resource claims, whose devices this cluster does not allocate (resource.k8s.io)",
            );
        }
        Ok(())
    }
}
