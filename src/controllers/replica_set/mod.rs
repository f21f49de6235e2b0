//! ReplicaSets and ReplicationControllers: maintain a number of equal pods.
//!
//! One controller for both kinds; [`kind`] defines their differences.

mod kind;
mod status;

use std::cmp::Ordering;

use k8s_openapi::api::apps::v1::ReplicaSetStatus;
use k8s_openapi::api::core::v1::Pod;

use super::context::Context;
use super::controller_ref::{Orphans, claim, owners_concerned};
use super::creation_pace::CreationPace;
use super::deletion_order::pods_to_delete;
use super::pod_control::{BURST, PodControl, is_relevant, pod_of};
use api::Change;
use api::{Api, ApiError};
use kind::ReplicatedKind;
use object::owner::{controller_of, is_terminating};
use object::pod::{is_active, is_terminal};
use object::{Key, SharedObject};
use reconcile::{Cache, LastWrites, ReconcileError, Reconciler, WorkQueue, preconditions};
use status::Failure;

/// Starts the controller of ReplicaSets, or of ReplicationControllers.
pub(super) fn start<S: ReplicatedKind>(context: &Context) {
    context
        .controller(|queue| ReplicaSetController::<S> {
            api: context.api.clone(),
            sets: context.caches.of(),
            pods: context.caches.of(),
            orphans: Orphans::default(),
            control: PodControl::new(context, S::COMPONENT),
            pace: CreationPace::default(),
            last_writes: LastWrites::default(),
            queue,
        })
        .for_::<S>()
        .watches::<Pod, _>(ReplicaSetController::pod_changed)
        .workers(5)
        .run(&context.tasks);
}

struct ReplicaSetController<S> {
    api: Api,
    sets: Cache<S>,
    pods: Cache<Pod>,
    /// Pods without a controller.
    orphans: Orphans,
    control: PodControl,
    pace: CreationPace,
    last_writes: LastWrites<ReplicaSetStatus>,
    queue: WorkQueue<Key>,
}

impl<S: ReplicatedKind> Reconciler for ReplicaSetController<S> {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(set) = self.sets.get(key) else { return Ok(()) };
        // The cache does not show the last writes yet, so a count now would be wrong. The event that shows them causes
        // another sync.
        if let Some(left) = self.control.waits(set.uid()) {
            self.queue.add_after(set.key(), left);
            return Ok(());
        }
        let owned = self.pods.controlled_by(set.uid());
        let terminating = owned.iter().filter(|p| is_terminating(&p.metadata) && !is_terminal(p)).count();
        let orphans = self.orphans.of(&key.namespace, &self.pods);
        let candidates = owned.into_iter().chain(orphans).filter(|pod| is_active(pod));
        let active = claim(&self.api, &set, &set.selector(), candidates)?;
        let outcome =
            if is_terminating(set.object().meta()) { Ok(()) } else { self.manage_replicas(&set, &active) };
        let failure = outcome.as_ref().err().map(|error| Failure {
            reason: if active.len() < desired(&*set) { "FailedCreate" } else { "FailedDelete" },
            message: error.to_string(),
        });
        self.update_status(&set, &active, terminating, failure.as_ref())?;
        Ok(outcome?)
    }

    fn forget(&self, uid: &str) {
        self.control.forget(uid);
        self.pace.forget(uid);
        self.last_writes.forget(uid);
    }
}

fn desired(set: &impl ReplicatedKind) -> usize {
    usize::try_from(set.replicas().unwrap_or(1)).unwrap_or(0)
}

impl<S: ReplicatedKind> ReplicaSetController<S> {
    fn pod_changed(&self, change: &Change) -> Vec<Key> {
        self.orphans.observe(change);
        self.control.observe(change, S::kind());
        if is_relevant(change) { owners_concerned(change, &self.sets, S::selector) } else { Vec::new() }
    }

    /// Creates or deletes pods until their number is the desired one; stops at the first failing batch.
    fn manage_replicas(&self, set: &SharedObject<S>, active: &[SharedObject<Pod>]) -> Result<(), ApiError> {
        let desired = desired(&**set);
        match active.len().cmp(&desired) {
            Ordering::Less => {
                let missing = (desired - active.len()).min(BURST);
                let template = set.template().cloned().unwrap_or_default();
                let now = self.api.clock().monotonic();
                let made = self.pace.spend(set.uid(), desired, missing, now, |count| {
                    let pods = std::iter::repeat_with(|| pod_of(set.object(), &template)).take(count);
                    self.control.create_all(set.object(), pods)
                });
                made.unwrap_or_else(|wait| {
                    self.queue.add_after(set.key(), wait);
                    Ok(())
                })
            }
            Ordering::Greater => {
                let surplus = (active.len() - desired).min(BURST);
                let related = self.related_pods(set, active);
                let now = self.api.clock().now();
                let going = pods_to_delete(active, &related, surplus, now);
                self.control.delete_all(set.object(), going)
            }
            Ordering::Equal => Ok(()),
        }
    }

    /// Returns the active pods of every set under the same controller, so that one Deployment's pods are spread
    /// together.
    fn related_pods(&self, set: &SharedObject<S>, active: &[SharedObject<Pod>]) -> Vec<SharedObject<Pod>> {
        let mut related = active.to_vec();
        if let Some(owner) = controller_of(set.object().meta()) {
            for sibling in self.sets.controlled_by(&owner.uid).iter().filter(|s| s.uid() != set.uid()) {
                related.extend(self.pods.controlled_by(sibling.uid()).into_iter().filter(|p| is_active(p)));
            }
        }
        related
    }

    fn update_status(
        &self,
        set: &SharedObject<S>,
        active: &[SharedObject<Pod>],
        terminating: usize,
        failure: Option<&Failure>,
    ) -> Result<(), ApiError> {
        let now = self.api.clock().now();
        let before = set.status();
        let counted = status::count(&**set, before.as_ref(), active, terminating, failure, now);
        if let Some(left) = counted.next_available {
            self.queue.add_after(set.key(), left);
        }
        let next = counted.status;
        let is_there = before.as_ref() == Some(&next);
        let held = self.last_writes.write(set, is_there, &next, || {
            // Not written if nothing that the kind stores has changed.
            preconditions::modify_status(&self.api, set, |fresh| {
                // The pods are counted already; only the conditions depend on the present status.
                let conditions = status::conditions(fresh.status().as_ref(), failure, now);
                fresh.set_status(ReplicaSetStatus { conditions, ..next.clone() });
            })
        })?;
        if let Some(left) = held {
            self.queue.add_after(set.key(), left);
        }
        Ok(())
    }
}
