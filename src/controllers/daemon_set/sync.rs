//! Executes the decisions for one DaemonSet.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::manage::Actions;
use super::node_view::{NodeView, Strategy};
use super::{DaemonSets, manage, pod, revisions, rolling, status};
use crate::controller_ref::claim;
use api::ApiError;
use object::owner::is_terminating;
use object::selector::Selector;
use object::{Revision, SharedObject};
use reconcile::{ignore_not_found, preconditions};

/// The most pods created or deleted in one sync, as in Kubernetes; the rest follows once the cache shows these.
const BURST: usize = 250;

/// The result of a sync. If it acted on the present set, the set's generation counts as observed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SyncResult {
    Yes,
    No,
}

impl DaemonSets {
    pub(super) fn sync(&self, set: &SharedObject<DaemonSet>) -> Result<(), ApiError> {
        if set.spec.selector == LabelSelector::default() {
            let message = "This daemon set is selecting all pods. A non-empty selector is required.";
            self.control.recorder().warning(set.object(), "SelectingAll", message);
            return Ok(());
        }
        // The garbage collector deletes its pods.
        if is_terminating(&set.metadata) {
            return Ok(());
        }
        let selector = Selector::from_field(&set.spec.selector);
        let mut revisions = self.history.of(set, &selector)?;
        let collisions = set.status.as_ref().and_then(|s| s.collision_count);
        let latest = self.history.latest(set, &set.spec.template, &revisions, collisions)?;
        let owned = self.pods.controlled_by(set.uid());
        let orphans = self.orphans.of(set.namespace(), &self.pods);
        let mut pods = claim(&self.api, set, &selector, owned.into_iter().chain(orphans))?;
        self.merge_equal(set, &latest, &mut revisions, &mut pods)?;

        let hash = revisions::hash_of(&latest.revision);
        let now = self.api.clock().now();
        let node_view = NodeView::of(set, hash, &self.nodes.list(), &pods, now);
        if let Some(left) = status::next_available(&node_view) {
            self.queue.add_after(set.key(), left);
        }
        // The cache does not show the last writes yet: deciding now would repeat them. The event that shows them
        // causes another sync.
        if let Some(left) = self.control.waits(set.uid()) {
            self.queue.add_after(set.key(), left);
            return self.update_status(set, &node_view, latest.collisions, SyncResult::No);
        }
        let outcome = self.act(set, &node_view, hash, &pods);
        let tidied = outcome.and_then(|()| self.forget_old(set, &latest, &revisions, &pods));
        self.update_status(set, &node_view, latest.collisions, SyncResult::Yes)?;
        tidied
    }

    /// Creates missing pods; then continues the update.
    fn act(
        &self,
        set: &SharedObject<DaemonSet>,
        node_view: &NodeView,
        hash: &str,
        pods: &[SharedObject<Pod>],
    ) -> Result<(), ApiError> {
        let monotonic = self.api.clock().monotonic();
        let wait = |node: &str| self.failures.wait(set.uid(), node, monotonic);
        let actions = manage::next_step(node_view, Strategy::surges(set), wait);
        self.record_ended(set, &actions);
        if let Some(delay) = actions.requeue_after {
            self.queue.add_after(set.key(), delay);
        }
        let desired = node_view.desired();
        self.take(set, desired, &actions, hash, pods)?;
        if !self.control.is_caught_up(set.uid()) {
            return Ok(());
        }
        let actions = rolling::next_step(node_view, Strategy::of(set, desired));
        self.take(set, desired, &actions, hash, pods)
    }

    fn record_ended(&self, set: &SharedObject<DaemonSet>, actions: &Actions) {
        for ended in &actions.ended {
            let pod = format!("daemon pod {}/{} on node {}", set.namespace(), ended.pod, ended.node);
            let recorder = self.control.recorder();
            if ended.failed {
                self.failures.removed(set.uid(), &ended.node, self.api.clock().monotonic());
                let message = format!("Found failed {pod}, will try to kill it");
                recorder.warning(set.object(), "FailedDaemonPod", message);
            } else {
                let message = format!("Found succeeded {pod}, will try to delete it");
                recorder.normal(set.object(), "SucceededDaemonPod", message);
            }
        }
    }

    fn take(
        &self,
        set: &SharedObject<DaemonSet>,
        desired: i32,
        actions: &Actions,
        hash: &str,
        pods: &[SharedObject<Pod>],
    ) -> Result<(), ApiError> {
        let made = self.make(set, desired, &actions.create, hash);
        let names = actions.delete.iter().take(BURST);
        let to_delete = names.filter_map(|name| pods.iter().find(|pod| pod.name() == name));
        made.and(self.control.delete_all(set.object(), to_delete))
    }

    /// Creates pods for these nodes, as many as the set may create now; a later sync creates the rest.
    fn make(
        &self,
        set: &SharedObject<DaemonSet>,
        desired: i32,
        nodes: &[String],
        hash: &str,
    ) -> Result<(), ApiError> {
        let missing = nodes.len().min(BURST);
        if missing == 0 {
            return Ok(());
        }
        let desired = usize::try_from(desired).unwrap_or(0);
        let made = self.pace.spend(set.uid(), desired, missing, self.api.clock().monotonic(), |count| {
            let new = nodes.iter().take(count).map(|node| pod::pod_for(set, node, hash));
            self.control.create_all(set.object(), new)
        });
        made.unwrap_or_else(|wait| {
            self.queue.add_after(set.key(), wait);
            Ok(())
        })
    }

    fn update_status(
        &self,
        set: &SharedObject<DaemonSet>,
        node_view: &NodeView,
        collisions: i32,
        acted: SyncResult,
    ) -> Result<(), ApiError> {
        let mut held = None;
        let written = preconditions::modify_status(&self.api, set, |fresh| {
            let mut status = status::count(node_view, fresh.status.as_ref());
            if acted == SyncResult::Yes {
                status.observed_generation = set.metadata.generation;
            }
            if collisions != 0 {
                status.collision_count = Some(collisions);
            }
            let is_there = fresh.status.as_ref() == Some(&status);
            held = self.last_writes.hold(set.uid(), Revision::of(&fresh.metadata), is_there, &status);
            if held.is_none() {
                fresh.status = Some(status);
            }
        });
        match (&written, held) {
            (_, Some(left)) => self.queue.add_after(set.key(), left),
            (Ok(written), None) => self.last_writes.record_write(set.uid(), written.object().revision()),
            (Err(_), None) => {}
        }
        ignore_not_found(written)
    }
}
