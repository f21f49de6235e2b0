//! What happens in the cluster that may let a waiting pod fit.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use crate::state::node_info::{NodeDifference, NodeInfo};
use crate::state::pod_info::PodInfo;
use object::Shared;

/// Something changed in the cluster that may let a waiting pod fit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ClusterChange<'a> {
    /// A node is new.
    NodeAdded(&'a NodeInfo),
    /// A node differs in this.
    NodeUpdated(&'a NodeInfo, NodeDifference),
    /// A node is gone.
    NodeRemoved(&'a NodeInfo),
    /// A pod is on a node, or the labels of one that was there changed.
    PodPlaced(&'a PodInfo),
    /// A pod left a node, or takes less of it.
    PodRemoved(&'a NodeInfo, &'a PodInfo),
    /// Other pods may be selected by terms that select namespaces.
    NamespaceChanged,
    /// A claim is new or changed, or gone.
    ClaimChanged(&'a Shared<PersistentVolumeClaim>),
    /// A volume is new or changed.
    VolumeChanged,
    /// A storage class is new or changed.
    ClassChanged,
}

/// The kinds of [`ClusterChange`].
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
    /// Its kind.
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
