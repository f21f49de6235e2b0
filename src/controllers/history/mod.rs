//! The history of templates as ControllerRevisions, for StatefulSets and DaemonSets.
//!
//! [`revision`] defines revisions as data; this module adopts them, finds or creates the one of the owner's template,
//! and deletes old ones. It never touches pods and never writes an owner's status.

mod revision;

use std::collections::HashSet;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;

use super::context::Context;
use super::controller_ref::{Orphans, claim};
use api::{Api, ApiError, Change};
use object::selector::Selector;
use object::{Key, SharedObject, TypedKind};
use reconcile::{Cache, preconditions};
pub(super) use revision::{equal_to, next_number, number_of, template_of};

/// The label of a pod with its revision: the revision's name for a StatefulSet, its hash for a DaemonSet.
pub(super) const POD_REVISION_LABEL: &str = "controller-revision-hash";

/// The revisions of one controller's owners.
pub(super) struct History {
    api: Api,
    revisions: Cache<ControllerRevision>,
    orphans: Orphans,
    hash_label: &'static str,
}

/// The revision of an owner's template.
#[derive(Clone, Debug)]
pub(super) struct LatestRevision {
    pub(super) revision: SharedObject<ControllerRevision>,
    /// The value for `status.collisionCount`.
    pub(super) collisions: i32,
}

impl History {
    /// Creates the history of one kind of owner. The label `hash_label` of a revision has its hash:
    /// `controller.kubernetes.io/hash` for StatefulSets, [`POD_REVISION_LABEL`] for DaemonSets.
    pub(super) fn new(context: &Context, hash_label: &'static str) -> Self {
        Self {
            api: context.api.clone(),
            revisions: context.caches.of(),
            orphans: Orphans::default(),
            hash_label,
        }
    }

    /// Observes a revision's change; the controller must pass on every one.
    pub(super) fn observe(&self, change: &Change) {
        self.orphans.observe(change);
    }

    /// Returns the owner's revisions, oldest first, after adopting and releasing by its selector.
    pub(super) fn of<O: TypedKind>(
        &self,
        owner: &SharedObject<O>,
        selector: &Selector,
    ) -> Result<Vec<SharedObject<ControllerRevision>>, ApiError> {
        let owned = self.revisions.controlled_by(owner.uid());
        let orphans = self.orphans.of(owner.namespace(), &self.revisions);
        let mut claimed = claim(&self.api, owner, selector, owned.into_iter().chain(orphans))?;
        revision::sort(&mut claimed);
        Ok(claimed)
    }

    /// Returns the revision of `template`, which then has the highest number: the newest one if it is equal, an older
    /// equal one with a new number, or a new one. `revisions` are the owner's, oldest first.
    ///
    /// A cache that lags behind the last sync leads to the same result, because a revision's name follows from its
    /// content.
    pub(super) fn latest<O: TypedKind>(
        &self,
        owner: &SharedObject<O>,
        template: &PodTemplateSpec,
        revisions: &[SharedObject<ControllerRevision>],
        collisions: Option<i32>,
    ) -> Result<LatestRevision, ApiError> {
        let collisions = collisions.unwrap_or(0);
        let Some(known) = equal_to(revisions, template).pop() else {
            return self.create(owner, template, next_number(revisions), collisions);
        };
        let others = revisions.iter().filter(|r| r.uid() != known.uid()).map(|r| number_of(r));
        let highest = others.max().unwrap_or(0);
        if number_of(known) > highest {
            return Ok(LatestRevision { revision: known.clone(), collisions });
        }
        let revision = preconditions::modify(&self.api, known, |fresh| {
            fresh.revision = Some(number_of(fresh).max(highest.saturating_add(1)));
            Ok(())
        })?;
        Ok(LatestRevision { revision, collisions })
    }

    /// Stores a new revision; if its name is taken by another template, counts a collision and tries the next name.
    fn create<O: TypedKind>(
        &self,
        owner: &SharedObject<O>,
        template: &PodTemplateSpec,
        number: i64,
        mut collisions: i32,
    ) -> Result<LatestRevision, ApiError> {
        loop {
            let new = revision::new_revision(owner.object(), template, number, collisions, self.hash_label);
            let (key, data) = (Key::of(&new.metadata), new.data.clone());
            match self.api.create_as(new) {
                Ok(revision) => return Ok(LatestRevision { revision, collisions }),
                Err(error) if error.is_already_exists() => {}
                Err(error) => return Err(error),
            }
            match self.api.get_as::<ControllerRevision>(&key) {
                // Created by the previous sync, which the cache does not show yet.
                Ok(revision) if revision.data == data => return Ok(LatestRevision { revision, collisions }),
                Ok(_) => collisions = collisions.saturating_add(1),
                // Deleted in between: the name is free again.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Deletes the oldest revisions beyond the limit; those named in `live` neither count nor are deleted.
    pub(super) fn truncate(
        &self,
        revisions: &[SharedObject<ControllerRevision>],
        live: &HashSet<&str>,
        limit: Option<i32>,
    ) -> Result<(), ApiError> {
        let Some(limit) = limit else { return Ok(()) };
        for old in revision::beyond_limit(revisions, live, limit) {
            // If it has changed since, the event causes another sync.
            preconditions::delete_unchanged(&self.api, old)?;
        }
        Ok(())
    }
}
