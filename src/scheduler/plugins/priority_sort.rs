//! PrioritySort: the pod of the highest priority is tried first; among equals the older one.

use std::cmp::Reverse;

use jiff::Timestamp;

use crate::framework::{Plugin, PluginId, QueueOrder};
use crate::state::pod_info::PodInfo;

pub(crate) struct PrioritySort;

impl Plugin for PrioritySort {
    fn id(&self) -> PluginId {
        PluginId::PrioritySort
    }

    fn queue_order(&self, pod: &PodInfo) -> QueueOrder {
        let created = pod.pod.metadata.creation_timestamp.as_ref();
        QueueOrder { priority: Reverse(pod.priority), since: created.map_or(Timestamp::MIN, |time| time.0) }
    }
}
