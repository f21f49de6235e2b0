//! Changes of the cluster that may let a waiting pod fit.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use crate::state::node_info::{NodeDifference, NodeInfo};
use crate::state::pod_info::PodInfo;
use object::SharedObject;

/// A change of the cluster that may let a waiting pod fit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ClusterChange<'a> {
    /// A node was added.
    NodeAdded(&'a NodeInfo),
    /// A node changed in these parts.
    NodeUpdated(&'a NodeInfo, NodeDifference),
    /// A node was removed.
    NodeRemoved(&'a NodeInfo),
    /// A pod was placed on a node, or the labels of a placed pod changed.
    PodPlaced(&'a PodInfo),
    /// A pod was removed from a node, or uses less of the node's resources.
    PodRemoved(&'a NodeInfo, &'a PodInfo),
    /// A namespace changed: terms with namespace selectors may select other pods.
    NamespaceChanged,
    /// A claim was added, changed or deleted.
    ClaimChanged(&'a SharedObject<PersistentVolumeClaim>),
    /// A volume was added or changed.
    VolumeChanged,
    /// A storage class was added or changed.
    ClassChanged,
}

/// The types of [`ClusterChange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ChangeType {
    NodeAdded,
    NodeUpdated,
    NodeRemoved,
    PodPlaced,
    PodRemoved,
    NamespaceChanged,
    ClaimChanged,
    VolumeChanged,
    ClassChanged,
}

impl ClusterChange<'_> {
    pub(crate) fn change_type(&self) -> ChangeType {
        match self {
            Self::NodeAdded(_) => ChangeType::NodeAdded,
            Self::NodeUpdated(..) => ChangeType::NodeUpdated,
            Self::NodeRemoved(_) => ChangeType::NodeRemoved,
            Self::PodPlaced(_) => ChangeType::PodPlaced,
            Self::PodRemoved(..) => ChangeType::PodRemoved,
            Self::NamespaceChanged => ChangeType::NamespaceChanged,
            Self::ClaimChanged(_) => ChangeType::ClaimChanged,
            Self::VolumeChanged => ChangeType::VolumeChanged,
            Self::ClassChanged => ChangeType::ClassChanged,
        }
    }
}
