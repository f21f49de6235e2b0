//! What was chosen for pods and the API does not show yet.

use std::collections::{BTreeSet, HashMap};

use crate::state::node_info::NodeName;
use crate::state::pod_info::PodInfo;
use crate::state::snapshot::Snapshot;
use object::storage::{claim_ref, is_fully_bound};
use object::{Key, Uid};

/// What becomes of a pod's waiting claims on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// Claims that get a volume which is there.
    pub(super) bind: Vec<(Key, String)>,
    /// Claims that a volume is made for.
    pub(super) provision: Vec<Key>,
}

/// A choice for a pod whose node is decided.
#[derive(Clone, Debug)]
pub(super) struct Reserved {
    pub(super) node: NodeName,
    pub(super) choice: Choice,
    /// It has been written to the API.
    pub(super) written: bool,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// For the pod that is being decided about: the choice on each node that takes it.
    proposals: (Uid, HashMap<NodeName, Choice>),
    reserved: HashMap<Uid, Reserved>,
}

/// What others have taken, read once for a pod.
#[derive(Debug, Default)]
pub(super) struct Overview {
    /// Volumes that claims will get.
    pub(super) taken: BTreeSet<String>,
    /// The volume that a claim will get.
    pub(super) kept: HashMap<Key, String>,
    /// The node for which a claim's volume will be made.
    pub(super) selected: HashMap<Key, NodeName>,
}

impl Account {
    /// What the cluster shows by now need not be remembered, nor what was set aside for pods that are gone.
    pub(super) fn forget_what_is_seen(&mut self, snapshot: &Snapshot) {
        let storage = snapshot.storage();
        let is_bound = |key: &Key| storage.claim(key).is_none_or(|claim| is_fully_bound(claim));
        let is_kept = |name: &String| storage.volume(name).is_none_or(|v| claim_ref(v).is_some());
        self.reserved.retain(|uid, reserved| {
            let choice = &reserved.choice;
            let seen = choice.bind.iter().all(|(claim, volume)| is_bound(claim) && is_kept(volume))
                && choice.provision.iter().all(is_bound);
            !seen && snapshot.placed(uid).is_some()
        });
    }

    /// What other pods were promised.
    pub(super) fn overview(&self, pod: &PodInfo) -> Overview {
        let mut overview = Overview::default();
        for (_, reserved) in self.reserved.iter().filter(|(uid, _)| *uid != pod.uid()) {
            for (claim, volume) in &reserved.choice.bind {
                overview.taken.insert(volume.clone());
                overview.kept.insert(claim.clone(), volume.clone());
            }
            for claim in &reserved.choice.provision {
                overview.selected.insert(claim.clone(), reserved.node.clone());
            }
        }
        overview
    }

    /// A decision about this pod begins.
    pub(super) fn propose_for(&mut self, pod: &PodInfo) {
        self.proposals = (pod.uid().to_string(), HashMap::new());
    }

    /// The pod could go to this node.
    pub(super) fn propose(&mut self, node: &NodeName, choice: Choice) {
        self.proposals.1.insert(node.clone(), choice);
    }

    /// The pod goes to this node: what was proposed there is its own.
    pub(super) fn reserve(&mut self, pod: &PodInfo, node: &NodeName) {
        if self.proposals.0 == pod.uid()
            && let Some(choice) = self.proposals.1.remove(node)
        {
            let reserved = Reserved { node: node.clone(), choice, written: false };
            self.reserved.insert(pod.uid().to_string(), reserved);
        }
    }

    pub(super) fn give_back(&mut self, pod: &PodInfo) {
        self.reserved.remove(pod.uid());
    }

    pub(super) fn reserved(&self, pod: &PodInfo) -> Option<Reserved> {
        self.reserved.get(pod.uid()).cloned()
    }

    pub(super) fn note_written(&mut self, pod: &PodInfo) {
        if let Some(reserved) = self.reserved.get_mut(pod.uid()) {
            reserved.written = true;
        }
    }
}
