//! SchedulingGates: a pod with gates is not tried until the controllers that set them have removed them.

use crate::framework::{Plugin, PluginId};
use crate::state::pod_info::PodInfo;

pub(super) struct SchedulingGates;

impl Plugin for SchedulingGates {
    fn id(&self) -> PluginId {
        PluginId::SchedulingGates
    }

    fn pre_enqueue(&self, pod: &PodInfo) -> Result<(), &'static str> {
        if pod.is_gated() { Err("Scheduling is blocked due to non-empty scheduling gates") } else { Ok(()) }
    }
}
