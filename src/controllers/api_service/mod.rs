//! APIServices: probes the servers behind them (Kubernetes' AvailableConditionController), and registers the groups
//! served here (`registration`).
//!
//! Probes run in tasks of their own: a reconcile reads the stored object and the last result, and never waits.

mod availability;
mod probe;
mod registration;

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{
    APIService, APIServiceCondition, ServiceReference,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::context::Context;
use api::{Api, ApiError, Change};
use availability::Availability;
use base::task::Tasks;
use object::conditions::{self};
use object::{Key, SharedObject, Uid};
use probe::{Probe, ProbeAction};
use reconcile::{Cache, ReconcileError, Reconciler, WorkQueue, ignore_not_found, optional, preconditions};

pub(super) use registration::start as start_registration;

/// The most probes at once.
const MAX_PROBES: usize = 8;

pub(super) fn start(context: &Context) {
    context
        .controller(|queue| AvailabilityController {
            api: context.api.acting_as("kube-aggregator"),
            services: context.caches.of(),
            endpoints: context.caches.of(),
            api_services: context.caches.of(),
            queue,
            tasks: context.tasks.clone(),
            probes: Arc::default(),
            permits: Arc::new(Semaphore::new(MAX_PROBES)),
        })
        .for_::<APIService>()
        .watches::<Service, _>(AvailabilityController::service_changed)
        .watches::<Endpoints, _>(AvailabilityController::service_changed)
        .run(&context.tasks);
}

struct AvailabilityController {
    api: Api,
    services: Cache<Service>,
    endpoints: Cache<Endpoints>,
    api_services: Cache<APIService>,
    queue: WorkQueue<Key>,
    tasks: Tasks,
    probes: Arc<Mutex<HashMap<Key, (Uid, Probe)>>>,
    permits: Arc<Semaphore>,
}

impl Reconciler for AvailabilityController {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(stored) = optional(self.api.get_as::<APIService>(key))? else {
            self.probes.lock().remove(key);
            return Ok(());
        };
        let spec = stored.spec.clone().unwrap_or_default();
        let Some(reference) = &spec.service else {
            return Ok(self.write(&stored, &Availability::local())?);
        };
        let service_key = key_of(reference);
        let service = self.services.get(&service_key);
        let endpoints = self.endpoints.get(&service_key);
        let seen = availability::of_service(reference, service.as_deref(), endpoints.as_deref());
        if let Err(unavailable) = seen {
            return Ok(self.write(&stored, &unavailable)?);
        }
        let now = self.api.clock().monotonic();
        let (next, of) = {
            let mut probes = self.probes.lock();
            // An object recreated under the same name starts over.
            let probe = probes.entry(key.clone()).or_insert_with(|| (stored.uid().into(), Probe::default()));
            if probe.0 != stored.uid() {
                *probe = (stored.uid().into(), Probe::default());
            }
            (probe.1.next(&spec, now), probe.0.clone())
        };
        match next {
            ProbeAction::Nothing => {}
            ProbeAction::Ask => self.start_probe(key.clone(), of),
            ProbeAction::Wait(left) => self.queue.add_after(key.clone(), left),
            ProbeAction::Write(answer, again) => {
                self.queue.add_after(key.clone(), again);
                self.write(&stored, &Availability::from_probe(answer))?;
            }
        }
        Ok(())
    }
}

impl AvailabilityController {
    /// Returns the APIServices that name a service, after a change of the service or its endpoints.
    fn service_changed(&self, change: &Change) -> Vec<Key> {
        let changed = change.object.key();
        let of_it = |api: &&SharedObject<APIService>| {
            let reference = api.spec.as_ref().and_then(|spec| spec.service.as_ref());
            reference.is_some_and(|reference| key_of(reference) == changed)
        };
        let keys: Vec<Key> = self.api_services.list().iter().filter(of_it).map(SharedObject::key).collect();
        let mut probes = self.probes.lock();
        for key in &keys {
            if let Some((_, probe)) = probes.get_mut(key) {
                probe.service_changed();
            }
        }
        keys
    }

    fn start_probe(&self, key: Key, of: Uid) {
        let (api, queue) = (self.api.clone(), self.queue.clone());
        let (probes, turns) = (self.probes.clone(), self.permits.clone());
        self.tasks.spawn("apiservice-probe", async move {
            let Ok(_turn) = turns.acquire().await else { return };
            let answer = api.probe_api_service(&key.name).await;
            if let Some((uid, probe)) = probes.lock().get_mut(&key)
                && *uid == of
            {
                probe.answered(answer);
            }
            queue.add(key);
        });
    }

    /// Writes the condition, unless the status has it already.
    fn write(&self, stored: &SharedObject<APIService>, availability: &Availability) -> Result<(), ApiError> {
        let conditions = stored.status.as_ref().and_then(|status| status.conditions.as_ref());
        if conditions::get(conditions, "Available").is_some_and(|before| availability.is_reported_by(before))
        {
            return Ok(());
        }
        let Availability { is_available, reason, message, .. } = availability;
        let next: APIServiceCondition =
            conditions::new("Available", *is_available, reason, message, self.api.clock().time());
        let written = preconditions::modify_status(&self.api, stored, |fresh| {
            // The result applies only to the same spec.
            if fresh.spec == stored.spec {
                let conditions = fresh.status.get_or_insert_default().conditions.get_or_insert_default();
                conditions::set(conditions, next.clone());
            }
        });
        ignore_not_found(written)
    }
}

fn key_of(reference: &ServiceReference) -> Key {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Key::new(text(&reference.namespace), text(&reference.name))
}
