//! Expands claims (VOL-2): `persistentvolume-expander`.
//!
//! A directory has no limited size: expanding one only changes its objects. Volumes of other provisioners are left to
//! them.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use crate::context::Context;
use api::{Api, ApiError};
use object::quantity::Amount;
use object::storage::{
    DIRECTORY_PROVISIONER, DISK_DRIVER, PROVISIONED_BY, annotation, claim_phase, claim_ref, claim_size,
    claim_uid, volume_name, volume_size,
};
use object::{Key, SharedObject};
use reconcile::preconditions::{modify, modify_status};
use reconcile::{ReconcileError, Reconciler, Recorder, ignore_not_found, key_if};

pub(crate) fn start(context: &Context) {
    context
        .controller(|_| Expander {
            api: context.api.clone(),
            recorder: Recorder::new(&context.api, "volume_expand"),
        })
        .keys_of::<PersistentVolumeClaim>()
        .watches::<PersistentVolumeClaim, _>(|_, change| {
            key_if::<PersistentVolumeClaim>(change, needs_expansion)
        })
        .run(&context.tasks);
}

struct Expander {
    api: Api,
    recorder: Recorder,
}

impl Reconciler for Expander {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Ok(claim) = self.api.get_as::<PersistentVolumeClaim>(key) else { return Ok(()) };
        let Some(name) = volume_name(&claim).filter(|_| needs_expansion(&claim)) else { return Ok(()) };
        let Ok(volume) = self.api.get_as::<PersistentVolume>(&Key::new("", name)) else { return Ok(()) };
        if claim_ref(&volume).and_then(claim_uid) != Some(claim.uid()) {
            return Ok(());
        }
        let by = annotation(&volume.metadata, PROVISIONED_BY);
        if !matches!(by, Some(DIRECTORY_PROVISIONER | DISK_DRIVER)) {
            let message = "waiting for an external controller to expand this PVC";
            self.recorder.normal(claim.object(), "ExternalExpanding", message);
            return Ok(());
        }
        Ok(ignore_not_found(self.expand(&claim, &volume))?)
    }
}

/// Returns true if a bound claim requests more than its capacity.
fn needs_expansion(claim: &PersistentVolumeClaim) -> bool {
    let capacity = claim.status.as_ref().and_then(|status| status.capacity.as_ref());
    let has = Amount::in_list(capacity, "storage");
    claim_phase(claim) == "Bound" && !has.is_zero() && claim_size(claim) > has
}

impl Expander {
    fn expand(
        &self,
        claim: &SharedObject<PersistentVolumeClaim>,
        volume: &SharedObject<PersistentVolume>,
    ) -> Result<(), ApiError> {
        let message = format!("External resizer is resizing volume {}", volume.name());
        self.recorder.normal(claim.object(), "Resizing", message);
        let size = claim_size(claim);
        modify(&self.api, volume, |fresh| {
            // A volume may be larger than its claim from the start; it never shrinks.
            if volume_size(fresh) < size {
                let capacity = fresh.spec.get_or_insert_default().capacity.get_or_insert_default();
                capacity.insert("storage".into(), size.to_binary());
            }
            Ok(())
        })?;
        modify_status(&self.api, claim, |fresh| {
            let status = fresh.status.get_or_insert_default();
            status.capacity.get_or_insert_default().insert("storage".into(), size.to_binary());
        })?;
        self.recorder.normal(claim.object(), "VolumeResizeSuccessful", "Resize volume succeeded");
        Ok(())
    }
}
