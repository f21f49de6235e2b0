//! Binds claims and volumes, and maintains the phases of both (VOL-2): `persistentvolume-binder`.
//!
//! A binding is four writes: the volume names the claim, the claim names the volume, and each records it in its
//! status. They are made in this order, each only if it is missing, so that an interrupted binding continues where it
//! stopped. `claim` and `volume` decide; `bind` writes.

mod bind;
mod claim;
mod reclaim;
mod volume;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use parking_lot::Mutex;

use super::request::Request;
use crate::context::Context;
use api::{Api, ApiError, Change, ChangeKind};
use object::storage::{
    claim_key, claim_phase, claim_ref, claims_of, default_class, is_fully_bound, volume_name,
};
use object::{Key, SharedObject};
use reconcile::{Cache, EventType, ReconcileError, Reconciler, Recorder, WorkQueue, reference_to};

pub(crate) fn start(context: &Context) {
    context
        .controller(|queue| Binder {
            api: context.api.clone(),
            claims: context.caches.of(),
            volumes: context.caches.of(),
            pods: context.caches.of(),
            recorder: Recorder::new(&context.api, "persistentvolume-controller"),
            queue,
            unbound: Mutex::default(),
        })
        .keys_are(|request| Some(request.object()))
        .watches::<PersistentVolumeClaim, _>(Binder::claim_changed)
        .watches::<PersistentVolume, _>(Binder::volume_changed)
        .watches::<StorageClass, _>(Binder::class_changed)
        .reads::<Pod>()
        .run(&context.tasks);
}

struct Binder {
    api: Api,
    claims: Cache<PersistentVolumeClaim>,
    volumes: Cache<PersistentVolume>,
    pods: Cache<Pod>,
    recorder: Recorder,
    queue: WorkQueue<Request>,
    /// Claims that a new volume or class may serve.
    unbound: Mutex<BTreeSet<Key>>,
}

impl Reconciler for Binder {
    type Key = Request;

    fn reconcile(&self, work: &Request) -> Result<(), ReconcileError> {
        let outcome = match work {
            // From the store, because the last writes may not be in the caches yet.
            Request::Claim(key) => match self.api.get_as(key) {
                Ok(claim) => self.sync_claim(&claim),
                Err(_) => Ok(()),
            },
            Request::Volume(name) => match self.api.get_as(&Key::new("", name.as_str())) {
                Ok(volume) => self.sync_volume(&volume),
                Err(_) => Ok(()),
            },
        };
        match outcome {
            // It was deleted meanwhile, which causes another sync.
            Err(error) if error.is_not_found() => Ok(()),
            other => Ok(other?),
        }
    }
}

impl Binder {
    fn claim_changed(&self, change: &Change) {
        let Some(claim) = change.object.get::<PersistentVolumeClaim>() else { return };
        let key = change.object.key();
        let is_deleted = change.kind == ChangeKind::Deleted;
        if is_deleted || is_fully_bound(claim) {
            self.unbound.lock().remove(&key);
        } else {
            self.unbound.lock().insert(key.clone());
        }
        let named = volume_name(claim);
        let before = change.previous.as_ref().and_then(|p| p.get::<PersistentVolumeClaim>());
        if is_deleted || named != before.and_then(volume_name) {
            self.enqueue(named.map(|name| Request::Volume(name.into())));
        }
        if is_deleted {
            let is_reserved = |volume: &SharedObject<PersistentVolume>| {
                claim_ref(volume).is_some_and(|reference| claim_key(reference) == key)
            };
            let volumes = self.volumes.list().into_iter().filter(is_reserved);
            self.enqueue(volumes.map(|volume| Request::Volume(volume.name().into())));
        } else {
            self.queue.add(Request::Claim(key));
        }
    }

    fn volume_changed(&self, change: &Change) {
        let Some(volume) = change.object.get::<PersistentVolume>() else { return };
        self.queue.add(Request::Volume(change.object.name().into()));
        let Some(reference) = claim_ref(volume) else { return self.enqueue_unbound() };
        self.queue.add(Request::Claim(claim_key(reference)));
        if change.kind == ChangeKind::Deleted {
            // Claims that name a deleted volume have lost it.
            let named = |claim: &SharedObject<PersistentVolumeClaim>| {
                volume_name(claim) == Some(change.object.name()) && claim_phase(claim) != "Lost"
            };
            let claims = self.claims.list().into_iter().filter(named);
            self.enqueue(claims.map(|claim| Request::Claim(claim.key())));
        }
    }

    fn class_changed(&self, change: &Change) {
        if change.kind != ChangeKind::Deleted {
            self.enqueue_unbound();
        }
    }

    fn enqueue(&self, work: impl IntoIterator<Item = Request>) {
        work.into_iter().for_each(|work| self.queue.add(work));
    }

    fn enqueue_unbound(&self) {
        self.enqueue(self.unbound.lock().iter().cloned().map(Request::Claim));
    }

    fn sync_claim(&self, claim: &SharedObject<PersistentVolumeClaim>) -> Result<(), ApiError> {
        let volume = |name: &str| self.api.get_as(&Key::new("", name)).ok();
        let class = |name: &str| self.api.get_as(&Key::new("", name)).ok();
        let view = claim::View {
            claim,
            volumes: &|| self.api.list_as(None),
            volume: &volume,
            class: &class,
            default_class: &|| default_class(self.api.list_as(None)),
            waiting_pods: &|| self.pods_waiting_for(claim),
        };
        match claim::decide(&view) {
            claim::Action::Bind(volume) => self.bind(&volume, claim),
            claim::Action::TakeClass(class) => self.take_class(claim, &class),
            claim::Action::Provision(class) => self.set_provisioner(claim, &class),
            claim::Action::Wait(event) => {
                if let Some(claim::ClaimEvent { type_, reason, message }) = event {
                    self.recorder.record(reference_to(claim.object()), type_, reason, message);
                }
                self.update_claim_status(claim, "Pending", None)
            }
            claim::Action::Lost { reason, message } => self.mark_lost(claim, reason, message),
        }
    }

    /// Returns the claim's pods without a node.
    fn pods_waiting_for(&self, claim: &SharedObject<PersistentVolumeClaim>) -> Vec<String> {
        let waits = |pod: &SharedObject<Pod>| {
            object::pod::node_name(pod).is_none() && claims_of(pod).any(|used| used.claim == claim.name())
        };
        let pods = self.pods.in_namespace(claim.namespace());
        pods.iter().filter(|pod| waits(pod)).map(|pod| pod.name().to_string()).collect()
    }

    fn sync_volume(&self, volume: &SharedObject<PersistentVolume>) -> Result<(), ApiError> {
        let claim = claim_ref(volume).map(claim_key).and_then(|key| self.api.get_as(&key).ok());
        match volume::decide(volume, claim.as_deref()) {
            volume::Action::Available => self.update_volume_status(volume, "Available", None),
            volume::Action::Bound => self.update_volume_status(volume, "Bound", None),
            volume::Action::Unbind => self.unbind(volume),
            volume::Action::Release => {
                let released = self.release(volume)?;
                self.reclaim(&released)
            }
            volume::Action::SyncClaim => {
                self.enqueue(claim.map(|claim| Request::Claim(claim.key())));
                Ok(())
            }
            volume::Action::ModeMismatch => {
                let Some(claim) = claim else { return Ok(()) };
                for (about, message) in volume::mode_mismatch(volume, &claim) {
                    self.recorder.record(about, EventType::Warning, "VolumeMismatch", message);
                }
                Ok(())
            }
        }
    }
}
