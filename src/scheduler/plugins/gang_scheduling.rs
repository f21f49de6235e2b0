//! GangScheduling: a pod of a group waits until its group exists. Podium serves no pod groups, so the pod waits for
//! ever. Its condition says so; the pod is never run alone (API-17).

use crate::framework::{Plugin, PluginId};
use crate::state::pod_info::PodInfo;

pub(super) struct GangScheduling;

impl Plugin for GangScheduling {
    fn id(&self) -> PluginId {
        PluginId::GangScheduling
    }

    fn pre_enqueue(&self, pod: &PodInfo) -> Result<(), &'static str> {
        if pod.pod.spec.as_ref().is_some_and(|spec| spec.scheduling_group.is_some()) {
            return Err("waiting for a pod group, which this cluster does not serve (scheduling.k8s.io)");
        }
        Ok(())
    }
}
