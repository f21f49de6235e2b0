//! The changes that affect on which nodes a pod's volumes are available: for VolumeBinding and VolumeZone.

use crate::framework::{ChangeType, ClusterChange};
use crate::state::pod_info::PodInfo;

/// The types of changes that can resolve a refusal because of volumes.
pub(super) const TYPES: &[ChangeType] = &[
    ChangeType::NodeAdded,
    ChangeType::NodeUpdated,
    ChangeType::ClaimChanged,
    ChangeType::VolumeChanged,
    ChangeType::ClassChanged,
];

/// Returns true if a change can resolve a refusal of this pod.
pub(super) fn help(pod: &PodInfo, change: &ClusterChange<'_>) -> bool {
    match change {
        ClusterChange::NodeUpdated(_, difference) => difference.labels,
        ClusterChange::ClaimChanged(claim) => pod.uses_claim(&claim.key()),
        _ => true,
    }
}
