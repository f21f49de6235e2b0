//! The writes of a binding, each made only if it is missing.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;

use super::Binder;
use crate::volume::annotate;
use api::ApiError;
use object::storage::{
    BETA_STORAGE_PROVISIONER, BIND_COMPLETED, BOUND_BY_CONTROLLER, DIRECTORY_PROVISIONER, DISK_DRIVER,
    STORAGE_PROVISIONER, annotation, claim_phase, claim_ref, is_bound_to, keep_for, names_class, volume_name,
    volume_phase,
};
use object::{Kind, SharedObject};
use reconcile::preconditions::{modify, modify_status};
use reconcile::{EventType, reference_to};

impl Binder {
    /// Binds claim and volume to each other, or completes a partial binding.
    pub(super) fn bind(
        &self,
        volume: &SharedObject<PersistentVolume>,
        claim: &SharedObject<PersistentVolumeClaim>,
    ) -> Result<(), ApiError> {
        let volume = modify(&self.api, volume, |fresh| {
            if claim_ref(fresh).is_some() && !is_bound_to(fresh, claim) {
                // Another claim, or the scheduler on behalf of another, was faster.
                return Err(ApiError::modified(Kind::PersistentVolume, volume.name()));
            }
            keep_for(fresh, claim);
            Ok(())
        })?;
        self.update_volume_status(&volume, "Bound", None)?;
        let claim = modify(&self.api, claim, |fresh| {
            match volume_name(fresh) {
                Some(name) if name != volume.name() => {
                    return Err(ApiError::modified(Kind::PersistentVolumeClaim, claim.name()));
                }
                Some(_) => {}
                None => {
                    fresh.spec.get_or_insert_default().volume_name = Some(volume.name().into());
                    annotate(&mut fresh.metadata, BOUND_BY_CONTROLLER, "yes");
                }
            }
            if annotation(&fresh.metadata, BIND_COMPLETED).is_none() {
                annotate(&mut fresh.metadata, BIND_COMPLETED, "yes");
            }
            Ok(())
        })?;
        self.update_claim_status(&claim, "Bound", Some(&volume))
    }

    /// Releases the volume, because its claim is bound to another. A user's reservation of the volume for the claim
    /// stays.
    pub(super) fn unbind(&self, volume: &SharedObject<PersistentVolume>) -> Result<(), ApiError> {
        let volume = modify(&self.api, volume, |fresh| {
            if let Some(annotations) = &mut fresh.metadata.annotations
                && annotations.remove(BOUND_BY_CONTROLLER).is_some()
            {
                fresh.spec.get_or_insert_default().claim_ref = None;
            } else if let Some(reference) = fresh.spec.as_mut().and_then(|spec| spec.claim_ref.as_mut()) {
                reference.uid = None;
            }
            Ok(())
        })?;
        self.update_volume_status(&volume, "Available", None)
    }

    /// Gives the default class to a claim that names none, even long after its creation.
    pub(super) fn take_class(
        &self,
        claim: &SharedObject<PersistentVolumeClaim>,
        class: &SharedObject<StorageClass>,
    ) -> Result<(), ApiError> {
        modify(&self.api, claim, |fresh| {
            if !names_class(fresh) {
                fresh.spec.get_or_insert_default().storage_class_name = Some(class.name().into());
            }
            Ok(())
        })
        .map(drop)
    }

    /// Names the provisioner that should create a volume for the claim, and waits for it.
    pub(super) fn set_provisioner(
        &self,
        claim: &SharedObject<PersistentVolumeClaim>,
        class: &SharedObject<StorageClass>,
    ) -> Result<(), ApiError> {
        let provisioner = class.provisioner.as_str();
        let updated = modify(&self.api, claim, |fresh| {
            for key in [BETA_STORAGE_PROVISIONER, STORAGE_PROVISIONER] {
                if annotation(&fresh.metadata, key) != Some(provisioner) {
                    annotate(&mut fresh.metadata, key, provisioner);
                }
            }
            Ok(())
        })?;
        let is_builtin = matches!(provisioner, DIRECTORY_PROVISIONER | DISK_DRIVER);
        // The built-in provisioner reacts to the annotation. An external one may not exist, so an event says what the
        // claim waits for.
        if !is_builtin || updated.object().revision() != claim.object().revision() {
            let message = format!(
                "Waiting for a volume to be created either by the external provisioner '{provisioner}' or \
                 manually by the system administrator. If volume creation is delayed, please verify that the \
                 provisioner is running and correctly registered."
            );
            self.recorder.normal(updated.object(), "ExternalProvisioning", message);
        }
        self.update_claim_status(&updated, "Pending", None)
    }

    /// Updates a claim's status for its phase and its volume.
    pub(super) fn update_claim_status(
        &self,
        claim: &SharedObject<PersistentVolumeClaim>,
        phase: &str,
        volume: Option<&SharedObject<PersistentVolume>>,
    ) -> Result<(), ApiError> {
        modify_status(&self.api, claim, |fresh| {
            let becomes = claim_phase(fresh) != phase;
            let spec = volume.and_then(|volume| volume.spec.as_ref());
            let status = fresh.status.get_or_insert_default();
            status.phase = Some(phase.into());
            status.access_modes = spec.and_then(|spec| spec.access_modes.clone());
            match spec {
                None => status.capacity = None,
                // Later sizes are set by the component that expands the volume.
                Some(spec) if becomes => status.capacity.clone_from(&spec.capacity),
                Some(_) => {}
            }
        })
        .map(drop)
    }

    /// Reports that the claim's data is lost; recorded once.
    pub(super) fn mark_lost(
        &self,
        claim: &SharedObject<PersistentVolumeClaim>,
        reason: &str,
        message: &str,
    ) -> Result<(), ApiError> {
        if claim_phase(claim) == "Lost" {
            return Ok(());
        }
        self.update_claim_status(claim, "Lost", None)?;
        self.recorder.warning(claim.object(), reason, message);
        Ok(())
    }

    /// Updates a volume's phase; `failure` is the reason and message of a Warning, recorded once.
    pub(super) fn update_volume_status(
        &self,
        volume: &SharedObject<PersistentVolume>,
        phase: &str,
        failure: Option<(&str, &str)>,
    ) -> Result<(), ApiError> {
        if volume_phase(volume) == phase {
            return Ok(());
        }
        let now = self.api.clock().time();
        modify_status(&self.api, volume, |fresh| {
            let status = fresh.status.get_or_insert_default();
            if status.phase.as_deref() != Some(phase) {
                status.phase = Some(phase.into());
                status.last_phase_transition_time = Some(now.clone());
            }
            status.message = failure.map(|(_, message)| message.to_string());
        })?;
        if let Some((reason, message)) = failure {
            self.recorder.record(reference_to(volume.object()), EventType::Warning, reason, message.into());
        }
        Ok(())
    }
}
