//! Creates the claims of pods with ephemeral volumes (VOL-2): `ephemeral-volume-controller`.
//!
//! Such a claim is owned by its pod and deleted with it. A claim with the right name that belongs to another or an
//! earlier pod is never used.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::context::Context;
use api::{Api, Change, ChangeKind};
use object::owner::{controller_reference, is_terminating};
use object::storage::{ephemeral_claim_name, is_created_for};
use object::{Key, SharedObject};
use reconcile::{Cache, ReconcileError, Reconciler, Recorder, WorkQueue};

pub(crate) fn start(context: &Context) {
    context
        .controller(|queue| Ephemeral {
            api: context.api.clone(),
            pods: context.caches.of(),
            recorder: Recorder::new(&context.api, "ephemeral_volume"),
            queue,
        })
        .keys_of::<Pod>()
        .watches::<Pod, _>(Ephemeral::pod_changed)
        .watches::<PersistentVolumeClaim, _>(Ephemeral::claim_changed)
        .workers(5)
        .run(&context.tasks);
}

struct Ephemeral {
    api: Api,
    pods: Cache<Pod>,
    recorder: Recorder,
    queue: WorkQueue<Key>,
}

impl Reconciler for Ephemeral {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(pod) = self.pods.get(key).filter(|pod| !is_terminating(&pod.metadata)) else {
            return Ok(());
        };
        for volume in volumes(&pod) {
            if let Err(refusal) = self.provide(&pod, volume)? {
                let message = format!("ephemeral volume {}: {refusal}", volume.name);
                self.recorder.warning(pod.object(), "FailedBinding", message);
            }
        }
        Ok(())
    }
}

/// Returns the volumes of a pod that need a claim of their own.
fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter(|volume| volume.ephemeral.is_some())
}

impl Ephemeral {
    fn pod_changed(&self, change: &Change) {
        let wants = change.object.get::<Pod>().is_some_and(|pod| volumes(pod).next().is_some());
        if wants && change.kind == ChangeKind::Added {
            self.queue.add(change.object.key());
        }
    }

    /// Recreates a claim deleted while its pod exists; a deleted claim may also have blocked another pod's.
    fn claim_changed(&self, change: &Change) {
        if change.kind != ChangeKind::Deleted {
            return;
        }
        for pod in self.pods.in_namespace(change.object.namespace()) {
            let has_claim =
                |volume: &Volume| ephemeral_claim_name(&pod, &volume.name) == change.object.name();
            if volumes(&pod).any(has_claim) {
                self.queue.add(pod.key());
            }
        }
    }

    /// Makes sure that the volume's claim exists; a refusal becomes an event.
    fn provide(
        &self,
        pod: &SharedObject<Pod>,
        volume: &Volume,
    ) -> Result<Result<(), String>, ReconcileError> {
        let name = ephemeral_claim_name(pod, &volume.name);
        if let Ok(claim) = self.api.get_as::<PersistentVolumeClaim>(&Key::new(pod.namespace(), name.as_str()))
        {
            return Ok(if is_created_for(&claim, pod) { Ok(()) } else { Err(not_owner(&claim, pod)) });
        }
        let Some(template) = volume.ephemeral.as_ref().and_then(|e| e.volume_claim_template.clone()) else {
            return Ok(Ok(()));
        };
        let given = template.metadata.unwrap_or_default();
        let claim = PersistentVolumeClaim {
            metadata: ObjectMeta {
                labels: given.labels,
                annotations: given.annotations,
                owner_references: Some(vec![controller_reference(pod.object())]),
                ..Key::new(pod.namespace(), name).metadata()
            },
            spec: Some(template.spec),
            status: None,
        };
        match self.api.create_as(claim) {
            Ok(_) => Ok(Ok(())),
            Err(error) if error.is_already_exists() => Err(error.into()),
            Err(error) if error.is_not_found() => Ok(Ok(())),
            Err(error) => {
                let message = format!("ephemeral volume {}: create PVC: {error}", volume.name);
                self.recorder.warning(pod.object(), "FailedBinding", message);
                Err(error.into())
            }
        }
    }
}

/// Returns the message about a claim that has the name and belongs to another pod.
fn not_owner(claim: &SharedObject<PersistentVolumeClaim>, pod: &SharedObject<Pod>) -> String {
    format!("PVC {} was not created for pod {} (pod is not owner)", claim.key(), pod.key())
}
