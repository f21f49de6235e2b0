//! The changes that affect the possible nodes of a pod because of its volumes: for VolumeBinding and VolumeZone.

use crate::framework::{ChangeType, ClusterChange};
use crate::state::pod_info::PodInfo;

/// The changes that can turn a refusal because of volumes.
pub(super) const TYPES: &[ChangeType] = &[
    ChangeType::NodeAdded,
    ChangeType::NodeUpdated,
    ChangeType::ClaimChanged,
    ChangeType::VolumeChanged,
    ChangeType::ClassChanged,
];

/// Returns true if a change can turn this pod's refusal.
pub(super) fn help(pod: &PodInfo, change: &ClusterChange<'_>) -> bool {
    match change {
        ClusterChange::NodeUpdated(_, difference) => difference.labels,
        ClusterChange::ClaimChanged(claim) => pod.uses_claim(&claim.key()),
        _ => true,
    }
}
