//! The old rollback API: an annotation with the revision to return to.
//!
//! `kubectl rollout undo` writes the template itself; this serves clients that only annotate.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

use super::{DeploymentController, annotations, hash, history};
use api::ApiError;
use object::SharedObject;

impl DeploymentController {
    /// Performs a requested rollback; returns true if there was one.
    pub(super) fn roll_back(
        &self,
        deployment: &SharedObject<Deployment>,
        sets: &[SharedObject<ReplicaSet>],
    ) -> Result<bool, ApiError> {
        let Some(requested) = annotations::number(&deployment.metadata, annotations::ROLLBACK_TO) else {
            return Ok(false);
        };
        // Clients refuse an undo while paused; the annotation waits until the Deployment is resumed.
        if deployment.spec.paused == Some(true) {
            return Ok(false);
        }
        let target = history::revision_to_roll_back_to(requested, sets);
        let template = target.and_then(|set| set.spec.template.clone());
        let of_target = target.and_then(|set| set.metadata.annotations.clone());
        self.api.modify::<Deployment>(&deployment.key(), |fresh| {
            if let Some(annotations) = &mut fresh.metadata.annotations {
                annotations.remove(annotations::ROLLBACK_TO);
            }
            if let Some(template) = &template
                && !hash::same_template(template, &fresh.spec.template)
            {
                fresh.spec.template = hash::without_hash(template);
                // Restores the change cause too: the ReplicaSet that becomes the new one copies it from the
                // Deployment.
                annotations::restore(&mut fresh.metadata, of_target.as_ref());
            }
            Ok(())
        })?;
        let about = deployment.object();
        match target {
            None => self.recorder.warning(
                about,
                "DeploymentRollbackRevisionNotFound",
                if requested == 0 {
                    "Unable to find last revision."
                } else {
                    "Unable to find the revision to rollback to."
                },
            ),
            Some(set)
                if template.as_ref().is_some_and(|t| hash::same_template(t, &deployment.spec.template)) =>
            {
                let revision = annotations::revision(&set.metadata);
                let message = format!(
                    "The rollback revision contains the same template as current deployment \"{}\"",
                    deployment.name()
                );
                tracing::debug!(revision, "{message}");
                self.recorder.warning(about, "DeploymentRollbackTemplateUnchanged", message);
            }
            Some(set) => {
                let revision = annotations::revision(&set.metadata);
                let message =
                    format!("Rolled back deployment \"{}\" to revision {revision}", deployment.name());
                self.recorder.normal(about, "DeploymentRollback", message);
            }
        }
        Ok(true)
    }
}
