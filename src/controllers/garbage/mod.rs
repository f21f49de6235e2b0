//! Garbage collection by owner references: deletes objects that have lost their owners, in the requested order.
//!
//! An object is deleted only after each owner was looked up in the API itself, by uid and in the namespace that the
//! reference implies; the [`graph`] only decides what to look up.

mod graph;

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use parking_lot::Mutex;

use super::context::Context;
use api::{
    Api, ApiError, DeleteOptions, FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Part, Propagation, WriteOptions,
};
use api::{Change, ChangeKind};
use base::mistakes::Mistake;
use graph::{Graph, ObjectRef};
use object::finalizers::{has_finalizer, remove_finalizer};
use object::owner::is_terminating;
use object::{Key, Kind, Object, ServedKind, Uid};
use reconcile::{ReconcileError, Reconciler, Recorder, WorkQueue, ignore_not_found, optional};

/// The most dependents handled in one sync of their owner; the others wait for the next.
const BATCH: usize = 500;
/// The pause before an owner's next batch.
const NEXT_BATCH: Duration = Duration::from_millis(5);

/// Starts the collector.
pub(super) fn start(context: &Context) {
    // Events have no owners.
    context
        .controller(|queue| Collector {
            api: context.api.clone(),
            graph: Mutex::default(),
            recorder: Recorder::new(&context.api, "garbage-collector-controller"),
            queue,
        })
        .watches_every_kind(|kind| kind != Kind::Event, Collector::changed)
        .workers(20)
        .run(&context.tasks);
}

struct Collector {
    api: Api,
    graph: Mutex<Graph>,
    recorder: Recorder,
    queue: WorkQueue<Uid>,
}

/// The state of an owner in a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// It exists and is not known to be deleted.
    Solid,
    /// It exists and waits for the deletion of its dependents.
    Waiting,
    /// It does not exist.
    Dangling,
    /// Its kind is not served: its state is unknown.
    Unknown,
}

impl Reconciler for Collector {
    type Key = Uid;

    fn reconcile(&self, uid: &Uid) -> Result<(), ReconcileError> {
        let Some(reference) = self.graph.lock().reference(uid) else { return Ok(()) };
        let object = optional(self.api.get(reference.kind, &reference.key))?;
        let Some(object) = object.filter(|object| object.uid() == uid) else { return Ok(()) };
        if is_terminating(object.meta()) {
            if has_finalizer(object.meta(), FOREGROUND_FINALIZER) {
                self.process_deleting_dependents(&object)?;
            } else if has_finalizer(object.meta(), ORPHAN_FINALIZER) {
                self.orphan_dependents(&object)?;
            }
            return Ok(());
        }
        Ok(self.attempt_to_delete(&object)?)
    }
}

impl Collector {
    /// Returns the objects to sync after a change: dependents of the changed object, and owners that have lost their
    /// last dependent.
    fn changed(&self, change: &Change) -> Vec<Uid> {
        let mut graph = self.graph.lock();
        match change.kind {
            ChangeKind::Deleted => graph.remove(change.object.uid()),
            _ => graph.upsert(&change.object),
        }
    }

    /// Deletes an object without any remaining owner; otherwise removes the references to deleted owners.
    fn attempt_to_delete(&self, object: &Object) -> Result<(), ApiError> {
        let references = object.meta().owner_references.as_deref().unwrap_or_default();
        if references.is_empty() || Mistake::KeepOrphans.is_enabled() {
            return Ok(());
        }
        let owners: Vec<(&OwnerReference, Owner)> =
            references.iter().map(|r| (r, self.look_up(object, r))).collect();
        let any = |expected: Owner| owners.iter().any(|(_, owner)| *owner == expected);
        if any(Owner::Solid) || any(Owner::Unknown) {
            let dangling: Vec<&str> = owners
                .iter()
                .filter(|(_, owner)| matches!(owner, Owner::Dangling | Owner::Waiting))
                .map(|(reference, _)| reference.uid.as_str())
                .collect();
            if any(Owner::Solid) && !dangling.is_empty() {
                self.forget_owners(object, &dangling)?;
            }
            return Ok(());
        }
        let has_dependents = self.graph.lock().has_dependents(object.uid());
        if any(Owner::Waiting) && has_dependents {
            self.break_circles(object)?;
            return self.delete(object, Propagation::Foreground);
        }
        let propagation = if has_finalizer(object.meta(), ORPHAN_FINALIZER) {
            Propagation::Orphan
        } else if has_finalizer(object.meta(), FOREGROUND_FINALIZER) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        self.delete(object, propagation)
    }

    /// Looks an owner up in the namespace that the reference implies: the object's own, or none.
    fn look_up(&self, object: &Object, reference: &OwnerReference) -> Owner {
        let served = self.api.kinds().by_api_version(&reference.api_version, &reference.kind);
        let Some(kind) = served.map(ServedKind::kind) else {
            return Owner::Unknown;
        };
        if kind.namespaced() && object.namespace().is_empty() {
            self.refuse(object, reference);
            return Owner::Unknown;
        }
        let namespace = if kind.namespaced() { object.namespace() } else { "" };
        match self.api.get(kind, &Key::new(namespace, reference.name.as_str())) {
            Ok(owner) if owner.uid() == reference.uid => {
                if is_terminating(owner.meta()) && has_finalizer(owner.meta(), FOREGROUND_FINALIZER) {
                    Owner::Waiting
                } else {
                    Owner::Solid
                }
            }
            _ => {
                // An owner with this uid in another namespace cannot own the object.
                if self.graph.lock().reference(&reference.uid).is_some() {
                    self.refuse(object, reference);
                }
                Owner::Dangling
            }
        }
    }

    fn refuse(&self, object: &Object, reference: &OwnerReference) {
        let message = format!(
            "ownerRef [{}/{}, namespace: {}, name: {}, uid: {}] does not exist in namespace \"{}\"",
            reference.api_version,
            reference.kind,
            object.namespace(),
            reference.name,
            reference.uid,
            object.namespace()
        );
        self.recorder.warning(object, "OwnerRefInvalidNamespace", message);
    }

    /// Breaks cycles: a dependent that itself waits for this object would wait for ever. Therefore this object's
    /// references no longer block the deletion of its owners.
    fn break_circles(&self, object: &Object) -> Result<(), ApiError> {
        let in_circle = {
            let graph = self.graph.lock();
            graph.dependents_of(object.uid()).iter().any(|d| graph.is_foreground(d))
        };
        if in_circle { self.clear_block_owner_deletion(object) } else { Ok(()) }
    }

    fn clear_block_owner_deletion(&self, object: &Object) -> Result<(), ApiError> {
        self.edit(object, |next| {
            for reference in next.meta_mut().owner_references.iter_mut().flatten() {
                reference.block_owner_deletion = Some(false);
            }
        })
    }

    /// Foreground deletion: removes the owner's finalizer once every blocking dependent is deleted.
    fn process_deleting_dependents(&self, owner: &Object) -> Result<(), ApiError> {
        let (is_free, in_circle, waiting) = {
            let graph = self.graph.lock();
            let mut blocking = graph.blocking_dependents_of(owner.uid()).peekable();
            let is_free = blocking.peek().is_none();
            // The graph enqueued these dependents when the owner began to wait; they are enqueued again to be safe.
            let waiting: Vec<Uid> =
                blocking.filter(|dependent| !graph.is_foreground(dependent)).take(BATCH).cloned().collect();
            (is_free, waiting.is_empty() && graph.waits_for_itself(owner.uid()), waiting)
        };
        if is_free {
            return self.remove_finalizer(owner, FOREGROUND_FINALIZER);
        }
        if in_circle {
            return self.clear_block_owner_deletion(owner);
        }
        for dependent in waiting {
            self.queue.add(dependent);
        }
        Ok(())
    }

    /// Removes the references to this owner from its dependents, a batch in each sync, and then the owner's finalizer.
    fn orphan_dependents(&self, owner: &Object) -> Result<(), ApiError> {
        let dependents: Vec<ObjectRef> = self.graph.lock().some_dependents_of(owner.uid(), BATCH);
        if dependents.is_empty() {
            return self.remove_finalizer(owner, ORPHAN_FINALIZER);
        }
        for reference in dependents {
            if let Some(dependent) = optional(self.api.get(reference.kind, &reference.key))? {
                self.forget_owners(&dependent, &[owner.uid()])?;
            }
        }
        // The graph follows these writes; then the next sync handles the rest.
        self.queue.add_after(owner.uid().to_string(), NEXT_BATCH);
        Ok(())
    }

    fn forget_owners(&self, object: &Object, owners: &[&str]) -> Result<(), ApiError> {
        self.edit(object, |next| {
            let meta = next.meta_mut();
            if let Some(references) = &mut meta.owner_references {
                references.retain(|r| !owners.contains(&r.uid.as_str()));
            }
        })
    }

    fn remove_finalizer(&self, object: &Object, finalizer: &str) -> Result<(), ApiError> {
        self.edit(object, |next| remove_finalizer(next.meta_mut(), finalizer))
    }

    /// Changes the metadata of this object, never of another one with its name. Succeeds if the object is already
    /// deleted.
    fn edit(&self, object: &Object, mut change: impl FnMut(&mut Object)) -> Result<(), ApiError> {
        let (kind, key) = (object.kind(), object.key());
        let edited =
            self.api.change_through("", kind, &key, Part::System, &WriteOptions::default(), |current| {
                let mut next = current.clone();
                if current.uid() == object.uid() {
                    change(&mut next);
                }
                Ok(next)
            });
        ignore_not_found(edited)
    }

    fn delete(&self, object: &Object, propagation: Propagation) -> Result<(), ApiError> {
        let options = DeleteOptions {
            propagation: Some(propagation),
            // Owners may have been added since they were looked up.
            resource_version: Some(object.revision()),
            ..DeleteOptions::uid(object.uid())
        };
        match self.api.delete(object.kind(), &object.key(), &options) {
            Err(error) if error.is_conflict() => {
                self.queue.add_rate_limited(object.uid().to_string());
                Ok(())
            }
            deleted => ignore_not_found(deleted),
        }
    }
}

#[cfg(test)]
mod tests;
