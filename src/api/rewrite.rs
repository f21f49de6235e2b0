//! The whole state at once: read at one revision, and replaced in one write (SAFE-8).
//!
//! Such a write bypasses defaulting, validation and admission, which ran when the objects were first written.
//! State of the API outside the store is updated: the addresses of services, and the served definitions.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::deletion::{DeletionAction, next_step};
use super::write_refusal::write_refusal;
use super::{Api, ApiError, DeleteOptions};
use object::{Kind, Object};
use store::{Change, ChangeKind, Rewrite, Snapshot};

impl Api {
    /// Returns all objects, consistent at one revision.
    pub fn whole(&self) -> Snapshot {
        self.store().whole()
    }

    /// Executes the writes that `plan` makes from all objects, all or none of them
    /// ([`store::Store::rewrite`]). Errors name `kind`, that of the object that requests the writes.
    pub fn rewrite(
        &self,
        kind: Kind,
        plan: impl FnOnce(Snapshot) -> Vec<Rewrite>,
    ) -> Result<Vec<Change>, ApiError> {
        let refused = |error| write_refusal(error, kind, "");
        let changes = self.store().rewrite(plan).map_err(refused)?;
        // Former addresses are released before new ones are marked, because another object may hold a former
        // one now.
        for change in &changes {
            let now = Some(&*change.object).filter(|_| change.kind != ChangeKind::Deleted);
            if let Some(previous) = &change.previous {
                self.release_unused_addresses(previous, now);
            }
        }
        let stored = changes.iter().filter(|change| change.kind != ChangeKind::Deleted);
        self.mark_allocated(stored.map(|change| &change.object));
        let is_definition = |change: &&Change| change.object.kind() == Kind::CustomResourceDefinition;
        // Definitions are applied first: a custom object has no kind before its definition.
        let (definitions, others): (Vec<_>, Vec<_>) = changes.iter().partition(is_definition);
        for change in definitions.into_iter().chain(others) {
            self.object_stored(&change.object);
        }
        Ok(changes)
    }

    /// Returns the rewrite that ends a pod regardless of finalizers: only the node that runs it can delay its
    /// removal. `None` if nothing is to be changed, because the pod is terminating already and has no
    /// finalizers. `grace` is its grace period in seconds, at least 1; `None`: its own.
    pub fn end_of(&self, pod: &Arc<Object>, grace: Option<i64>) -> Option<Rewrite> {
        pod.get::<Pod>()?;
        let mut let_go = Object::clone(pod);
        let_go.meta_mut().finalizers = None;
        let options = DeleteOptions {
            grace_period_seconds: grace.map(|seconds| seconds.max(1)),
            ..DeleteOptions::default()
        };
        match next_step(&let_go, &options, self.server_clock().now()) {
            DeletionAction::Remove => Some(Rewrite::Remove(Kind::Pod, pod.key())),
            DeletionAction::Mark(marked) => Some(Rewrite::Set(marked)),
            DeletionAction::Nothing if let_go == **pod => None,
            DeletionAction::Nothing => Some(Rewrite::Set(Box::new(let_go))),
        }
    }
}
