//! Checks that a pod's volumes are available on a node.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use parking_lot::Mutex;

use super::assumed_volumes::{AssumedVolumes, Overview, PodVolumes};
use crate::framework::NodeCheck;
use crate::reason::{Reason, Reasons, Refusal};
use crate::state::node_info::NodeInfo;
use crate::state::storage::Storage;
use base::sort::SliceOrder;
use object::SharedObject;
use object::storage::{
    NO_PROVISIONER, SELECTED_NODE, VolumeRequester, annotation, claim_class, claim_size, find_match,
    is_reachable_from, provisions_for, volume_name,
};

/// The volumes of one pod.
pub(super) struct Volumes<'a> {
    account: &'a Mutex<AssumedVolumes>,
    others: Overview,
    storage: &'a Storage,
    /// The volumes of bound claims.
    bound: Vec<&'a SharedObject<PersistentVolume>>,
    /// A claim is bound to a missing volume.
    missing: bool,
    /// Claims that wait for the pod, smallest first: large volumes are left for large claims.
    waiting: Vec<&'a SharedObject<PersistentVolumeClaim>>,
}

impl<'a> Volumes<'a> {
    pub(super) fn new(
        account: &'a Mutex<AssumedVolumes>,
        others: Overview,
        storage: &'a Storage,
        bound: &[&'a SharedObject<PersistentVolumeClaim>],
        mut waiting: Vec<&'a SharedObject<PersistentVolumeClaim>>,
    ) -> Self {
        let volumes: Vec<_> =
            bound.iter().map(|claim| volume_name(claim).and_then(|name| storage.volume(name))).collect();
        waiting.order_by_key(|claim| claim_size(claim));
        // A claim that two volumes of the pod use needs only one choice.
        waiting.dedup_by_key(|claim| claim.key());
        Self {
            account,
            others,
            storage,
            missing: volumes.iter().any(Option::is_none),
            bound: volumes.into_iter().flatten().collect(),
            waiting,
        }
    }

    /// Returns true if the volumes are available on every node.
    pub(super) fn are_everywhere(&self) -> bool {
        let anywhere = |volume: &&SharedObject<PersistentVolume>| {
            volume.spec.as_ref().is_none_or(|spec| spec.node_affinity.is_none())
        };
        self.waiting.is_empty() && !self.missing && self.bound.iter().all(anywhere)
    }

    /// Returns the volumes for the pending claims on this node; `None` if one of the claims cannot be served there.
    fn choose(&self, node: &Node, node_name: &str) -> Option<PodVolumes> {
        let mut choice = PodVolumes::default();
        let mut taken: BTreeSet<String> = self.others.reserved_volumes.clone();
        for claim in &self.waiting {
            let key = claim.key();
            let selected = self.others.selected.get(&key).map(|name| &**name);
            let selected = selected.or_else(|| annotation(&claim.metadata, SELECTED_NODE));
            if selected.is_some_and(|selected| selected != node_name) {
                return None;
            }
            if let Some(reserved) = self.others.reserved.get(&key) {
                self.storage.volume(reserved).filter(|volume| is_reachable_from(volume, node))?;
                choice.bind.push((key, reserved.clone()));
                continue;
            }
            let volumes = self.storage.volumes_of(claim_class(claim));
            let found = if selected.is_some() {
                None
            } else {
                find_match(claim, volumes, VolumeRequester::Scheduler(node), &taken)
            };
            match found {
                Some(volume) => {
                    taken.insert(volume.name().to_string());
                    choice.bind.push((key, volume.name().to_string()));
                }
                None if self.is_provisionable(claim, node) => choice.provision.push(key),
                None => return None,
            }
        }
        Some(choice)
    }

    /// Returns true if a provisioner creates volumes of the claim's class for this node.
    fn is_provisionable(&self, claim: &PersistentVolumeClaim, node: &Node) -> bool {
        self.storage.class(claim_class(claim)).is_some_and(|class| {
            !class.provisioner.is_empty()
                && class.provisioner != NO_PROVISIONER
                && provisions_for(class, node)
        })
    }
}

impl NodeCheck for Volumes<'_> {
    fn check(&self, node: &NodeInfo) -> Result<(), Refusal> {
        let mut reasons = Vec::new();
        if !self.bound.iter().all(|volume| is_reachable_from(volume, &node.node)) {
            reasons.push(Reason::VolumeNodeAffinityConflict);
        }
        if !self.waiting.is_empty() {
            match self.choose(&node.node, &node.name) {
                Some(choice) => self.account.lock().propose(&node.name, choice),
                None => reasons.push(Reason::NoVolumeToBind),
            }
        }
        if self.missing {
            reasons.push(Reason::VolumeMissing);
        }
        match reasons.len() {
            0 => Ok(()),
            1 => Err(Refusal::unresolvable(reasons.swap_remove(0))),
            _ => Err(Refusal { reasons: Reasons::Many(reasons.into()), resolvable: false }),
        }
    }
}
