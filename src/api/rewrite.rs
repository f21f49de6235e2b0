//! The whole state at once: read at one revision, and written in one write (SAFE-8).
//!
//! What is written so takes no other way: nothing is defaulted, validated or admitted, since it was when it was written
//! first. What the API keeps beside the store follows: addresses that services hold, and what is served of definitions.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::deletion::{Step, next_step};
use super::{Api, ApiError, DeleteOptions};
use object::{Kind, Object};
use store::{Change, ChangeKind, Rewrite, Snapshot};

impl Api {
    /// Every object there is, as they are together at one revision.
    pub fn whole(&self) -> Snapshot {
        self.store().whole()
    }

    /// Makes the writes that `plan` wants of everything there is, all or none of them ([`store::Store::rewrite`]).
    pub fn rewrite(&self, plan: impl FnOnce(Snapshot) -> Vec<Rewrite>) -> Result<Vec<Change>, ApiError> {
        let refused = |error| ApiError::from_write(error, Kind::ClusterRestore, "");
        let changes = self.store().rewrite(plan).map_err(refused)?;
        // What is let go first: another may have it now.
        for change in &changes {
            let now = Some(&*change.object).filter(|_| change.kind != ChangeKind::Deleted);
            if let Some(previous) = &change.previous {
                self.give_addresses_back(previous, now);
            }
        }
        let stored = changes.iter().filter(|change| change.kind != ChangeKind::Deleted);
        self.hold_addresses(stored.map(|change| &change.object));
        let is_definition = |change: &&Change| change.object.kind() == Kind::CustomResourceDefinition;
        // Custom objects are of a kind once it is defined.
        let (definitions, others): (Vec<_>, Vec<_>) = changes.iter().partition(is_definition);
        for change in definitions.into_iter().chain(others) {
            self.object_stored(&change.object);
        }
        Ok(changes)
    }

    /// What asks a pod to end, whoever waits for it: nobody holds it but the node that runs it. None when it is asked
    /// already. `grace` are the seconds that it gets, one at least; none = its own.
    pub fn end_of(&self, pod: &Arc<Object>, grace: Option<i64>) -> Option<Rewrite> {
        pod.get::<Pod>()?;
        let mut let_go = Object::clone(pod);
        let_go.meta_mut().finalizers = None;
        let options = DeleteOptions {
            grace_period_seconds: grace.map(|seconds| seconds.max(1)),
            ..DeleteOptions::default()
        };
        match next_step(&let_go, &options, self.server_clock().now()) {
            Step::Remove => Some(Rewrite::Remove(Kind::Pod, pod.key())),
            Step::Mark(marked) => Some(Rewrite::Set(marked)),
            Step::Nothing if let_go == **pod => None,
            Step::Nothing => Some(Rewrite::Set(Box::new(let_go))),
        }
    }
}
