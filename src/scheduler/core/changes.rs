//! The core's input: changes of pods, nodes and everything else that decisions depend on.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;

use super::{Core, GatedPod};
use crate::framework::{ChangeType, ClusterChange, PluginSet};
use crate::profile::{Profile, profile_of};
use crate::queue::Queue;
use crate::state::pod_info::{PodDifference, PodInfo};
use crate::state::snapshot::{NodeChange, PlacedPod, Snapshot};
use object::owner::is_terminating;
use object::pod::{is_terminal, node_name, nominated_node_name};
use object::selector::Labels;
use object::{Key, Object, SharedObject};

impl Core {
    /// Takes a new pod or a new version of one.
    pub(crate) fn pod_changed(&mut self, pod: SharedObject<Pod>, now: Duration) -> Option<GatedPod> {
        if is_terminal(&pod) {
            self.pod_deleted(pod.uid(), now);
            return None;
        }
        match node_name(&pod).map(str::to_string) {
            Some(node) => {
                self.pod_assigned(pod, &node, now);
                None
            }
            None => self.pod_waits(pod, now),
        }
    }

    fn pod_assigned(&mut self, pod: SharedObject<Pod>, node: &str, now: Duration) {
        self.stop_waiting(pod.uid());
        let before = self.snapshot.placed(pod.uid()).cloned();
        // Another binder bound the pod while it waited.
        if let (Some(_), Some(placed)) = (self.waiting_pods.remove(pod.uid()), &before) {
            self.unreserve(&placed.pod, &placed.node);
        }
        let there = before.as_ref().filter(|placed| *placed.node == *node);
        match there.map(|placed| (placed, placed.pod.difference(&pod))) {
            None | Some((_, PodDifference::Whole)) => {}
            Some((placed, difference)) => {
                if difference == PodDifference::Status {
                    self.update_pod_status(placed, pod.clone(), now);
                }
                if placed.assumed {
                    self.snapshot.confirm(pod.uid());
                    self.arrived(node, &placed.pod, now);
                }
                return;
            }
        }
        let pod = Arc::new(PodInfo::new(pod));
        self.snapshot.add_pod(pod.clone(), node);
        if let Some(placed) = before {
            // The pod uses less than before, or was assumed on another node.
            self.remove_pod_from_node(&placed.node, &placed.pod, now);
        }
        self.arrived(node, &pod, now);
    }

    /// Takes the new status of a placed pod. Neither its spec nor its node has changed.
    fn update_pod_status(&mut self, before: &PlacedPod, pod: SharedObject<Pod>, now: Duration) {
        let pod = Arc::new(before.pod.with_status_of(pod));
        self.snapshot.update_pod_status(&pod);
        if pod.requests != before.pod.requests {
            // The pod may use less than before.
            self.remove_pod_from_node(&before.node, &before.pod, now);
        }
    }

    /// Wakes the pods that may fit now that the caches show this pod on its node.
    fn arrived(&mut self, node: &str, pod: &PodInfo, now: Duration) {
        if self.snapshot.node(node).is_some() {
            let change = ClusterChange::PodPlaced(pod);
            wake(&mut self.queue, &self.profiles, &self.snapshot, &change, now);
        }
    }

    fn pod_waits(&mut self, pod: SharedObject<Pod>, now: Duration) -> Option<GatedPod> {
        if self.snapshot.placed(pod.uid()).is_some() {
            // This is an old version of a pod that has a node by now, or a waiting pod is being deleted.
            if is_terminating(&pod.metadata) && self.waiting_pods.remove(pod.uid()).is_some() {
                self.release_assumed(pod.uid(), now);
            }
            return None;
        }
        let known = self.queue.get(pod.uid()).cloned();
        let is_same = |known: &Arc<PodInfo>| known.difference(&pod) == PodDifference::None;
        let same = known.as_ref().is_some_and(is_same) && !is_terminating(&pod.metadata);
        if same && known.as_ref().is_some_and(|known| known.nominated_node() == nominated_node_name(&pod)) {
            return None;
        }
        let pod = Arc::new(PodInfo::new(pod));
        // A former scheduler or a user may have set or cleared the nomination.
        if known.as_ref().and_then(|known| known.nominated_node()) != pod.nominated_node() {
            self.snapshot.nominate(&pod, pod.nominated_node());
            self.queue.changed(now);
        }
        if same {
            self.queue.replace(pod);
            return None;
        }
        let Some(profile) = profile_of(&self.profiles, &pod).filter(|_| !pod.is_terminating()) else {
            self.stop_waiting(pod.uid());
            return None;
        };
        let admitted = profile.admits(&pod);
        self.queue.add(pod.clone(), admitted.is_err(), now);
        admitted.err().map(|message| GatedPod { pod, message })
    }

    /// Takes the removal of a pod.
    pub(crate) fn pod_deleted(&mut self, uid: &str, now: Duration) {
        let nominated = self.snapshot.nominated().node_of(uid).cloned().zip(self.queue.get(uid).cloned());
        self.stop_waiting(uid);
        self.waiting_pods.remove(uid);
        self.release_assumed(uid, now);
        // The nomination reserved resources on the node, which are free now as if the pod had used them.
        if let Some((node, pod)) = nominated {
            self.remove_pod_from_node(&node, &pod, now);
        }
    }

    fn stop_waiting(&mut self, uid: &str) {
        self.snapshot.drop_nomination(uid);
        if self.queue.remove(uid) {
            self.verdicts.lock().forget(uid);
        }
    }

    /// Reports that a pod no longer uses resources of a node.
    pub(super) fn remove_pod_from_node(&mut self, node: &str, pod: &PodInfo, now: Duration) {
        if let Some(info) = self.snapshot.node(node) {
            let change = ClusterChange::PodRemoved(info, pod);
            wake(&mut self.queue, &self.profiles, &self.snapshot, &change, now);
        }
    }

    /// Takes a new node or a new version of one.
    pub(crate) fn node_changed(&mut self, node: SharedObject<Node>, now: Duration) {
        let name = node.name().to_string();
        let change = self.snapshot.set_node(node);
        let Some(info) = self.snapshot.node(&name) else { return };
        let change = match change {
            NodeChange::Added => ClusterChange::NodeAdded(info),
            NodeChange::Updated(difference) if difference.any() => {
                ClusterChange::NodeUpdated(info, difference)
            }
            NodeChange::Updated(_) => return,
        };
        wake(&mut self.queue, &self.profiles, &self.snapshot, &change, now);
    }

    /// Takes the removal of a node.
    pub(crate) fn node_deleted(&mut self, name: &str, now: Duration) {
        if let Some(info) = self.snapshot.remove_node(name) {
            let change = ClusterChange::NodeRemoved(&info);
            wake(&mut self.queue, &self.profiles, &self.snapshot, &change, now);
        }
        self.waiting_pods.node_deleted(name);
    }

    /// Takes a new or relabelled namespace (`None`: it was deleted).
    pub(crate) fn namespace_changed(&mut self, name: &str, labels: Option<Labels>, now: Duration) {
        if self.snapshot.set_namespace(name, labels) {
            wake(&mut self.queue, &self.profiles, &self.snapshot, &ClusterChange::NamespaceChanged, now);
        }
    }

    /// Takes a new, changed or deleted Service or workload: the default spreading of its pods may depend on it.
    pub(crate) fn workload_changed(&mut self, object: &Object, deleted: bool, now: Duration) {
        self.selectors.update(object, deleted);
        self.queue.changed(now);
    }

    /// Takes a new, changed or deleted claim.
    pub(crate) fn claim_changed(
        &mut self,
        claim: &SharedObject<PersistentVolumeClaim>,
        deleted: bool,
        now: Duration,
    ) {
        let storage = self.snapshot.storage_mut();
        if deleted {
            storage.remove_claim(&claim.key());
        } else {
            storage.set_claim(claim.clone());
        }
        let change = ClusterChange::ClaimChanged(claim);
        wake(&mut self.queue, &self.profiles, &self.snapshot, &change, now);
    }

    /// Takes a new, changed or deleted volume.
    pub(crate) fn volume_changed(
        &mut self,
        volume: &SharedObject<PersistentVolume>,
        deleted: bool,
        now: Duration,
    ) {
        if deleted {
            self.queue.changed(now);
            return self.snapshot.storage_mut().remove_volume(volume.name());
        }
        self.snapshot.storage_mut().set_volume(volume.clone());
        let change = ClusterChange::VolumeChanged;
        wake(&mut self.queue, &self.profiles, &self.snapshot, &change, now);
    }

    /// Takes a new, changed or deleted storage class.
    pub(crate) fn class_changed(&mut self, class: &SharedObject<StorageClass>, deleted: bool, now: Duration) {
        if deleted {
            self.queue.changed(now);
            return self.snapshot.storage_mut().remove_class(class.name());
        }
        self.snapshot.storage_mut().set_class(class.clone());
        let change = ClusterChange::ClassChanged;
        wake(&mut self.queue, &self.profiles, &self.snapshot, &change, now);
    }

    /// Takes a new or changed budget.
    pub(crate) fn budget_changed(&mut self, budget: &SharedObject<PodDisruptionBudget>, now: Duration) {
        self.snapshot.budgets_mut().set(budget);
        self.queue.changed(now);
    }

    /// Takes the removal of a budget.
    pub(crate) fn budget_deleted(&mut self, budget: &Key, now: Duration) {
        self.snapshot.budgets_mut().remove(budget);
        self.queue.changed(now);
    }
}

/// Requeues those waiting pods that the change may help.
fn wake(
    queue: &mut Queue,
    profiles: &[Profile],
    snapshot: &Snapshot,
    change: &ClusterChange<'_>,
    now: Duration,
) {
    queue.changed(now);
    let kind = change.change_type();
    let woken = profiles.iter().map(|p| p.woken_by(kind)).fold(PluginSet::default(), |a, b| b.union(a));
    if woken.is_empty() && kind != ChangeType::NodeAdded {
        return;
    }
    queue.wake(woken, now, |pod, rejected_by| {
        if rejected_by.is_empty() {
            return kind == ChangeType::NodeAdded;
        }
        profile_of(profiles, pod).is_some_and(|p| p.is_schedulable_after(pod, rejected_by, change, snapshot))
    });
}
