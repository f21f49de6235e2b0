//! The volumes chosen for the claims of pods, as long as the API does not show these choices.

use std::collections::{BTreeSet, HashMap};

use crate::state::node_info::NodeName;
use crate::state::pod_info::PodInfo;
use crate::state::snapshot::Snapshot;
use object::storage::{claim_ref, is_fully_bound};
use object::{Key, Uid};

/// The treatment of a pod's pending claims on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PodVolumes {
    /// Claims to bind to an existing volume.
    pub(super) bind: Vec<(Key, String)>,
    /// Claims to provision.
    pub(super) provision: Vec<Key>,
}

/// The choice for a pod with a decided node.
#[derive(Clone, Debug)]
pub(super) struct ReservedVolumes {
    pub(super) node: NodeName,
    pub(super) choice: PodVolumes,
    /// The choice has been written to the API.
    pub(super) written: bool,
}

#[derive(Debug, Default)]
pub(super) struct AssumedVolumes {
    /// For the pod being decided: the choice on each feasible node.
    proposals: (Uid, HashMap<NodeName, PodVolumes>),
    reserved: HashMap<Uid, ReservedVolumes>,
}

/// The volumes and nodes reserved for other pods, read once for a pod.
#[derive(Debug, Default)]
pub(super) struct Overview {
    /// Volumes reserved for claims.
    pub(super) reserved_volumes: BTreeSet<String>,
    /// The volume reserved for each claim.
    pub(super) reserved: HashMap<Key, String>,
    /// The node for which each claim's volume will be provisioned.
    pub(super) selected: HashMap<Key, NodeName>,
}

impl AssumedVolumes {
    /// Drops choices that the snapshot shows by now, and those for deleted pods.
    pub(super) fn drop_observed(&mut self, snapshot: &Snapshot) {
        let storage = snapshot.storage();
        let is_bound = |key: &Key| storage.claim(key).is_none_or(|claim| is_fully_bound(claim));
        let is_claimed = |name: &String| storage.volume(name).is_none_or(|v| claim_ref(v).is_some());
        self.reserved.retain(|uid, reserved| {
            let choice = &reserved.choice;
            let seen = choice.bind.iter().all(|(claim, volume)| is_bound(claim) && is_claimed(volume))
                && choice.provision.iter().all(is_bound);
            !seen && snapshot.placed(uid).is_some()
        });
    }

    /// Returns the choices for other pods.
    pub(super) fn overview(&self, pod: &PodInfo) -> Overview {
        let mut overview = Overview::default();
        for (_, reserved) in self.reserved.iter().filter(|(uid, _)| *uid != pod.uid()) {
            for (claim, volume) in &reserved.choice.bind {
                overview.reserved_volumes.insert(volume.clone());
                overview.reserved.insert(claim.clone(), volume.clone());
            }
            for claim in &reserved.choice.provision {
                overview.selected.insert(claim.clone(), reserved.node.clone());
            }
        }
        overview
    }

    /// Starts a decision about this pod.
    pub(super) fn propose_for(&mut self, pod: &PodInfo) {
        self.proposals = (pod.uid().to_string(), HashMap::new());
    }

    /// Records the choice for the pod on this node.
    pub(super) fn propose(&mut self, node: &NodeName, choice: PodVolumes) {
        self.proposals.1.insert(node.clone(), choice);
    }

    /// Reserves the choice recorded for the pod on this node.
    pub(super) fn reserve(&mut self, pod: &PodInfo, node: &NodeName) {
        if self.proposals.0 == pod.uid()
            && let Some(choice) = self.proposals.1.remove(node)
        {
            let reserved = ReservedVolumes { node: node.clone(), choice, written: false };
            self.reserved.insert(pod.uid().to_string(), reserved);
        }
    }

    pub(super) fn unreserve(&mut self, pod: &PodInfo) {
        self.reserved.remove(pod.uid());
    }

    pub(super) fn reserved(&self, pod: &PodInfo) -> Option<ReservedVolumes> {
        self.reserved.get(pod.uid()).cloned()
    }

    pub(super) fn mark_written(&mut self, pod: &PodInfo) {
        if let Some(reserved) = self.reserved.get_mut(pod.uid()) {
            reserved.written = true;
        }
    }
}
