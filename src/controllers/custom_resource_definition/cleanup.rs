//! Deletes a definition: first the objects of its kind, and after the last one the definition's finalizer.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::{Definitions, holds, set};
use api::definitions::CLEANUP_FINALIZER;
use api::{ApiError, DeleteOptions};
use object::finalizers::has_finalizer;
use object::owner::is_terminating;
use object::{Kind, SharedObject};
use reconcile::{ReconcileError, ignore_gone, ignore_not_found, preconditions};

/// Deletions of objects within this time cause one sync, because each sync considers all that are left.
pub(super) const TOGETHER: Duration = Duration::from_millis(10);
/// The most objects deleted in one step, so that other definitions do not wait.
const BATCH: usize = 500;

/// The result of deleting the objects.
enum Outcome {
    /// No object is left.
    Done,
    /// Objects are left, and their removal causes another sync. `more`: this sync did not delete all objects, or its
    /// deletions may have removed the last ones, so the next sync follows soon.
    Waits {
        more: bool,
    },
    Failed(String),
}

impl Definitions {
    /// Takes the next step for a terminating definition.
    pub(super) fn clean_up(
        &self,
        definition: &SharedObject<CustomResourceDefinition>,
    ) -> Result<(), ReconcileError> {
        if !has_finalizer(&definition.metadata, CLEANUP_FINALIZER) {
            return Ok(());
        }
        let outcome = match self.api.follow_definition(definition.name()) {
            Ok(Some(kind)) => self.delete_objects(kind),
            // The definition was never served or cannot be served, so its kind has no objects.
            _ => Outcome::Done,
        };
        let (is_so, reason, message) = match &outcome {
            Outcome::Done if !holds(definition, "Established") => {
                (false, "NeverEstablished", "resource was never established".to_string())
            }
            Outcome::Done => (false, "InstanceDeletionCompleted", "removed all instances".to_string()),
            Outcome::Waits { .. } => {
                (true, "InstanceDeletionInProgress", "CustomResource deletion is in progress".to_string())
            }
            Outcome::Failed(error) => {
                (true, "InstanceDeletionFailed", format!("could not issue all deletes: {error}"))
            }
        };
        let now = self.api.clock().now();
        let written = preconditions::modify_status(&self.api, definition, |fresh| {
            let conditions = fresh.status.get_or_insert_default().conditions.get_or_insert_default();
            set(conditions, "Terminating", is_so, reason, message.clone(), now);
        });
        ignore_not_found(written)?;
        match outcome {
            Outcome::Done => Ok(preconditions::remove_finalizer(&self.api, definition, CLEANUP_FINALIZER)?),
            Outcome::Waits { more: true } => Err(ReconcileError::After(TOGETHER)),
            Outcome::Waits { more: false } => Ok(()),
            Outcome::Failed(error) => Err(ApiError::Internal(error).into()),
        }
    }

    fn delete_objects(&self, kind: Kind) -> Outcome {
        let objects = self.api.list(kind, None).objects;
        if objects.is_empty() {
            return Outcome::Done;
        }
        let (mut failure, mut requested) = (None, 0);
        for object in objects.iter().filter(|object| !is_terminating(object.meta())) {
            if requested == BATCH {
                return Outcome::Waits { more: true };
            }
            requested += 1;
            let deleted = self.api.delete(kind, &object.key(), &DeleteOptions::uid(object.uid()));
            if let Err(error) = ignore_gone(deleted) {
                failure.get_or_insert(error.to_string());
            }
        }
        match failure {
            Some(failure) => Outcome::Failed(failure),
            // Objects without finalizers are gone by now, perhaps all of them.
            None if requested > 0 => Outcome::Waits { more: true },
            None => Outcome::Waits { more: false },
        }
    }
}
