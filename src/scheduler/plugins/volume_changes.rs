//! What changes where a pod may run because of its volumes: the same for VolumeBinding and VolumeZone.

use crate::framework::{ChangeType, ClusterChange};
use crate::state::pod_info::PodInfo;

/// Changes that can turn a refusal because of volumes.
pub(super) const TYPES: &[ChangeType] = &[
    ChangeType::NodeAdded,
    ChangeType::NodeUpdated,
    ChangeType::ClaimChanged,
    ChangeType::VolumeChanged,
    ChangeType::ClassChanged,
];

/// Whether one of them can turn this pod's.
pub(super) fn help(pod: &PodInfo, change: &ClusterChange<'_>) -> bool {
    match change {
        ClusterChange::NodeUpdated(_, difference) => difference.labels,
        ClusterChange::ClaimChanged(claim) => pod.uses_claim(&claim.key()),
        _ => true,
    }
}
