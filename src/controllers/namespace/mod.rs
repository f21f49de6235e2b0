//! Deletes a namespace: first its pods, then everything else, then the namespace itself (API-10).

pub(super) mod account_token;
mod content;
pub(super) mod root_certificate;
pub(super) mod service_account;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;

use super::context::Context;
use api::ChangeKind;
use api::{Api, ApiError, Change, DeleteOptions, Part, WriteOptions};
use content::RemainingContent;
use object::owner::is_terminating;
use object::{Key, Kind, Object, SharedObject};
use reconcile::{ReconcileError, Reconciler, WorkQueue, ignore_gone, ignore_not_found, optional};

/// The finalizer in `spec` that represents a namespace's content.
const CONTENT: &str = "kubernetes";

/// The most objects deleted in one sync, so that other namespaces do not wait.
const BATCH: usize = 500;
/// Deletions of objects within this time cause one sync, because each sync considers all that are left.
const TOGETHER: Duration = Duration::from_millis(10);

pub(super) fn start(context: &Context) {
    context
        .controller(|queue| Namespaces { api: context.api.clone(), queue })
        .watches_every_kind(Kind::namespaced, Namespaces::content_changed)
        .for_::<Namespace>()
        .workers(10)
        .run(&context.tasks);
}

struct Namespaces {
    api: Api,
    queue: WorkQueue<Key>,
}

impl Reconciler for Namespaces {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let namespace = optional(self.api.get_as::<Namespace>(key))?
            .filter(|namespace| is_terminating(&namespace.metadata));
        let Some(namespace) = namespace else { return Ok(()) };
        let remains = self.empty(&key.name);
        if remains.objects.is_empty() && remains.failures.is_empty() {
            return Ok(self.finalize(&namespace)?);
        }
        self.update_status(&namespace, &remains)?;
        match remains.failures.first() {
            Some(failure) => Err(ApiError::Internal(failure.clone()).into()),
            None if remains.has_undeleted => Err(ReconcileError::After(TOGETHER)),
            // The removal of the remaining objects causes another sync.
            None => Ok(()),
        }
    }
}

impl Namespaces {
    fn content_changed(&self, change: &Change) {
        if change.kind == ChangeKind::Deleted {
            self.queue.add_after(Key::new("", change.object.namespace()), TOGETHER);
        }
    }

    /// Deletes everything in a namespace, a batch at a time. Pods come first, because they may need the other objects
    /// to stop.
    fn empty(&self, namespace: &str) -> RemainingContent {
        let mut remains = RemainingContent::default();
        let mut budget = BATCH;
        self.delete_objects(Kind::Pod, namespace, &mut budget, &mut remains);
        // Includes kinds with a deleted definition: no other controller would delete their objects.
        let kinds: Vec<Kind> = Kind::all().filter(|kind| kind.namespaced()).collect();
        if self.api.list(Kind::Pod, Some(namespace)).objects.is_empty() {
            for kind in kinds.iter().filter(|kind| **kind != Kind::Pod) {
                self.delete_objects(*kind, namespace, &mut budget, &mut remains);
            }
        }
        let mut finalizers: BTreeMap<String, usize> = BTreeMap::new();
        for kind in kinds {
            let objects = self.api.list(kind, Some(namespace)).objects;
            if objects.is_empty() {
                continue;
            }
            remains.objects.push((kind, objects.len()));
            for finalizer in objects.iter().flat_map(|o| o.meta().finalizers.iter().flatten()) {
                *finalizers.entry(finalizer.clone()).or_default() += 1;
            }
        }
        remains.finalizers = finalizers.into_iter().collect();
        remains
    }

    /// Deletes the objects of a kind that are not terminating yet, as far as the batch allows; reports the first
    /// failure.
    fn delete_objects(
        &self,
        kind: Kind,
        namespace: &str,
        budget: &mut usize,
        remains: &mut RemainingContent,
    ) {
        let mut failure = None;
        for object in self.api.list(kind, Some(namespace)).objects {
            if is_terminating(object.meta()) {
                continue;
            }
            if *budget == 0 {
                remains.has_undeleted = true;
                break;
            }
            *budget -= 1;
            let deleted = self.api.delete(kind, &object.key(), &DeleteOptions::uid(object.uid()));
            if let Err(error) = ignore_gone(deleted) {
                failure.get_or_insert(error.to_string());
            }
        }
        remains.failures.extend(failure);
    }

    fn update_status(
        &self,
        namespace: &SharedObject<Namespace>,
        remains: &RemainingContent,
    ) -> Result<(), ApiError> {
        let now = self.api.clock().now();
        let written = self.api.modify_status::<Namespace>(&namespace.key(), |fresh| {
            let status = fresh.status.get_or_insert_default();
            status.phase = Some("Terminating".into());
            status.conditions = Some(content::conditions(status.conditions.as_ref(), remains, now));
            Ok(())
        });
        ignore_not_found(written)
    }

    /// Removes the namespace's finalizer, because its content is gone.
    fn finalize(&self, namespace: &SharedObject<Namespace>) -> Result<(), ApiError> {
        let options = WriteOptions::default();
        let key = namespace.key();
        let done =
            self.api.change_through("finalize", Kind::Namespace, &key, Part::System, &options, |current| {
                let mut next: Object = current.clone();
                if current.uid() == namespace.uid()
                    && let Some(spec) = next.get_mut::<Namespace>().and_then(|n| n.spec.as_mut())
                    && let Some(finalizers) = &mut spec.finalizers
                {
                    finalizers.retain(|f| f != CONTENT);
                }
                Ok(next)
            });
        ignore_not_found(done)
    }
}
