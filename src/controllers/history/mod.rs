//! The history of templates as ControllerRevisions, for the kinds that keep it there: StatefulSets and
//! DaemonSets.
//!
//! [`revision`] is what revisions are; this brings them about: claims them, finds or makes the one of the
//! owner's template, forgets old ones. It never touches pods and never writes an owner's status.

mod revision;

use std::collections::HashSet;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;

use super::context::Context;
use super::controller_ref::{Orphans, claim};
use api::{Api, ApiError, Change, DeleteOptions};
use object::selector::Selector;
use object::{Key, Kind, Shared, Typed};
use reconcile::{Cache, ignore_gone};
pub(super) use revision::{equal_to, next_number, number_of, template_of};

/// The label with the revision that a pod was made of: of a StatefulSet the revision's name, of a
/// DaemonSet its hash.
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
pub(super) struct Latest {
    pub(super) revision: Shared<ControllerRevision>,
    /// `status.collisionCount` as it must be from now on.
    pub(super) collisions: i32,
}

impl History {
    /// Revisions whose hash stands under `hash_label`: `controller.kubernetes.io/hash` for StatefulSets,
    /// [`POD_REVISION_LABEL`] for DaemonSets.
    pub(super) fn new(context: &Context, hash_label: &'static str) -> Self {
        Self {
            api: context.api.clone(),
            revisions: context.caches.of(),
            orphans: Orphans::default(),
            hash_label,
        }
    }

    /// Follows a revision's change; the controller hands on every one.
    pub(super) fn observe(&self, change: &Change) {
        self.orphans.observe(change);
    }

    /// The owner's revisions, the oldest first, after adopting and releasing what its selector says.
    pub(super) fn of<O: Typed>(
        &self,
        owner: &Shared<O>,
        selector: &Selector,
    ) -> Result<Vec<Shared<ControllerRevision>>, ApiError> {
        let owned = self.revisions.controlled_by(owner.uid());
        let orphans = self.orphans.of(owner.namespace(), &self.revisions);
        let mut claimed = claim(&self.api, owner, selector, owned.into_iter().chain(orphans))?;
        revision::sort(&mut claimed);
        Ok(claimed)
    }

    /// The revision of `template`, which then has the highest number: the newest one if it is that, an older
    /// equal one under a new number, or a new one. `revisions` are the owner's, the oldest first.
    ///
    /// A cache that does not show the last sync's work leads to the same again: a revision's name follows
    /// from what it holds.
    pub(super) fn latest<O: Typed>(
        &self,
        owner: &Shared<O>,
        template: &PodTemplateSpec,
        revisions: &[Shared<ControllerRevision>],
        collisions: Option<i32>,
    ) -> Result<Latest, ApiError> {
        let collisions = collisions.unwrap_or(0);
        let Some(known) = equal_to(revisions, template).pop() else {
            return self.create(owner, template, next_number(revisions), collisions);
        };
        let others = revisions.iter().filter(|r| r.uid() != known.uid()).map(|r| number_of(r));
        let highest = others.max().unwrap_or(0);
        if number_of(known) > highest {
            return Ok(Latest { revision: known.clone(), collisions });
        }
        let revision = self.api.modify::<ControllerRevision>(&known.key(), |fresh| {
            if fresh.metadata.uid.as_deref() != Some(known.uid()) {
                return Err(ApiError::not_found(Kind::ControllerRevision, &known.key()));
            }
            fresh.revision = Some(number_of(fresh).max(highest.saturating_add(1)));
            Ok(())
        })?;
        Ok(Latest { revision, collisions })
    }

    /// Stores a new revision; where its name is taken by another template, a collision is counted and the
    /// next name tried.
    fn create<O: Typed>(
        &self,
        owner: &Shared<O>,
        template: &PodTemplateSpec,
        number: i64,
        mut collisions: i32,
    ) -> Result<Latest, ApiError> {
        loop {
            let new = revision::new_revision(owner.object(), template, number, collisions, self.hash_label);
            let (key, data) = (Key::of(&new.metadata), new.data.clone());
            match self.api.create_as(new) {
                Ok(revision) => return Ok(Latest { revision, collisions }),
                Err(error) if error.is_already_exists() => {}
                Err(error) => return Err(error),
            }
            match self.api.get_as::<ControllerRevision>(&key) {
                // Made by the sync before, which the cache does not show yet.
                Ok(revision) if revision.data == data => return Ok(Latest { revision, collisions }),
                Ok(_) => collisions = collisions.saturating_add(1),
                // Gone in between: the name is free again.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Forgets the oldest revisions beyond the limit; those whose names are `live` neither count nor go.
    pub(super) fn truncate(
        &self,
        revisions: &[Shared<ControllerRevision>],
        live: &HashSet<&str>,
        limit: Option<i32>,
    ) -> Result<(), ApiError> {
        let Some(limit) = limit else { return Ok(()) };
        for old in revision::beyond_limit(revisions, live, limit) {
            let options = DeleteOptions {
                resource_version: Some(old.object().revision()),
                ..DeleteOptions::uid(old.uid())
            };
            // Changed since: the cache's event brings it back to the queue.
            ignore_gone(self.api.delete(Kind::ControllerRevision, &old.key(), &options))?;
        }
        Ok(())
    }
}
