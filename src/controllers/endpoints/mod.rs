//! The pods behind each service, as Endpoints and as EndpointSlices.
//!
//! Two controllers with the same structure: [`member`] describes a pod as an endpoint, [`legacy`] and [`slices`]
//! write the two forms. [`mirror`] creates slices from Endpoints that users wrote.

mod legacy;
mod member;
pub(super) mod mirror;
mod slices;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::context::Context;
use api::Change;
use api::{Api, ApiError, DeleteOptions};
use member::Member;
use object::owner::is_terminating;
use object::selector::{Labels, Selector};
use object::service::of_slice;
use object::well_known::label::ZONE;
use object::{Key, Kind, Revision, SharedObject};
use reconcile::{
    Cache, LastWrites, ReconcileError, Reconciler, UpdateExpectations, WorkQueue, ignore_not_found,
};

/// The format in which the endpoints are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndpointsFormat {
    Endpoints,
    Slices,
}

pub(super) fn start(context: &Context, form: EndpointsFormat) {
    let controller = context
        .controller(|queue| EndpointsController {
            form,
            api: context.api.clone(),
            services: context.caches.of(),
            pods: context.caches.of(),
            nodes: context.caches.of(),
            slices: context.caches.of(),
            updates: UpdateExpectations::default(),
            last_writes: LastWrites::default(),
            queue,
        })
        .for_::<Service>()
        .watches::<Pod, _>(EndpointsController::pod_changed)
        .reads::<Node>()
        .workers(5);
    // Restores objects that another client changes or deletes.
    let controller = match form {
        EndpointsFormat::Endpoints => {
            controller.watches::<Endpoints, _>(|_, change| Some(change.object.key())).reads::<EndpointSlice>()
        }
        EndpointsFormat::Slices => controller
            .watches::<EndpointSlice, _>(|_, change| of_slice(change.object.meta()))
            .reads::<Endpoints>(),
    };
    controller.run(&context.tasks);
}

struct EndpointsController {
    form: EndpointsFormat,
    api: Api,
    services: Cache<Service>,
    pods: Cache<Pod>,
    nodes: Cache<Node>,
    slices: Cache<EndpointSlice>,
    /// Slices this controller wrote.
    updates: UpdateExpectations,
    /// The hash of the last desired endpoints of each service; see [`opinion`].
    last_writes: LastWrites<u64>,
    queue: WorkQueue<Key>,
}

impl Reconciler for EndpointsController {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(service) = self.services.get(key) else {
            return Ok(self.service_deleted(key)?);
        };
        let Some(selector) = selector(&service) else { return Ok(()) };
        if is_terminating(&service.metadata) {
            return Ok(());
        }
        let pods = self.pods.in_namespace(&key.namespace);
        let pods: Vec<_> =
            pods.into_iter().filter(|pod| selector.matches(pod.metadata.labels.as_ref())).collect();
        let members = by_family(&service, &pods);
        let written = match self.form {
            // Endpoints have only the service's primary family.
            EndpointsFormat::Endpoints => {
                let first = members.into_iter().next().map(|(_, members)| members).unwrap_or_default();
                self.write_endpoints(&service, &first)
            }
            EndpointsFormat::Slices => self.write_slices(&service, &members),
        };
        match written {
            // Nothing can be written in a terminating namespace.
            Err(ApiError::Forbidden { .. }) => Ok(()),
            other => Ok(other?),
        }
    }

    fn forget(&self, uid: &str) {
        self.updates.forget(uid);
        self.last_writes.forget(uid);
    }
}

/// Returns the hash of a service's desired endpoints, which the service's version and its members with their zones
/// determine.
fn opinion<'m>(
    service: &SharedObject<Service>,
    members: impl Iterator<Item = &'m Member>,
    zones: &HashMap<String, String>,
) -> u64 {
    let mut hasher = DefaultHasher::new();
    service.object().revision().hash(&mut hasher);
    for member in members {
        member.hash(&mut hasher);
        member.node.as_ref().and_then(|node| zones.get(node)).hash(&mut hasher);
    }
    hasher.finish()
}

/// Returns the pods as the service's endpoints, in each of its families.
fn by_family(
    service: &SharedObject<Service>,
    pods: &[SharedObject<Pod>],
) -> Vec<(&'static str, Vec<Member>)> {
    let of = |family| pods.iter().filter_map(|pod| member::member(service, pod, family)).collect();
    member::families(service).into_iter().map(|family| (family, of(family))).collect()
}

/// Returns the service's selector; `None` if its endpoints belong to another writer.
fn selector(service: &Service) -> Option<Selector> {
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    let labels: &Labels = spec.selector.as_ref().filter(|s| !s.is_empty())?;
    Some(Selector::from_labels(labels))
}

fn is_headless(service: &Service) -> bool {
    let address = service.spec.as_ref().and_then(|s| s.cluster_ip.as_deref());
    matches!(address, Some("None" | "") | None)
}

impl EndpointsController {
    fn pod_changed(&self, change: &Change) {
        let before = change.previous.as_ref().and_then(|p| p.get::<Pod>());
        let after = change.object.get::<Pod>();
        if let (Some(before), Some(after)) = (before, after)
            && change.kind == api::ChangeKind::Modified
            && member::facts(before) == member::facts(after)
        {
            return;
        }
        for service in self.services.in_namespace(change.object.namespace()) {
            let Some(selector) = selector(&service) else { continue };
            if [before, after].into_iter().flatten().any(|p| selector.matches(p.metadata.labels.as_ref())) {
                self.queue.add(service.key());
            }
        }
    }

    fn write_endpoints(&self, service: &SharedObject<Service>, members: &[Member]) -> Result<(), ApiError> {
        let desired = legacy::endpoints(service, members);
        let opinion = opinion(service, members.iter(), &HashMap::new());
        let mut held = None;
        let modified = self.api.modify::<Endpoints>(&service.key(), |endpoints| {
            let is_there = endpoints.metadata.labels == desired.metadata.labels
                && endpoints.metadata.annotations == desired.metadata.annotations
                && endpoints.subsets == desired.subsets;
            held = self.hold(service, Revision::of(&endpoints.metadata), is_there, opinion);
            if held.is_none() {
                endpoints.metadata.labels.clone_from(&desired.metadata.labels);
                endpoints.metadata.annotations.clone_from(&desired.metadata.annotations);
                endpoints.subsets.clone_from(&desired.subsets);
            }
            Ok(())
        });
        let written = match modified {
            Err(error) if error.is_not_found() => {
                if self.hold(service, self.api.revision(), false, opinion).is_some() {
                    return Ok(());
                }
                self.api.create_as(desired)?
            }
            other => other?,
        };
        if held.is_none() {
            self.last_writes.record_write(service.uid(), written.object().revision());
        }
        Ok(())
    }

    fn write_slices(
        &self,
        service: &SharedObject<Service>,
        members: &[(&'static str, Vec<Member>)],
    ) -> Result<(), ApiError> {
        // The slices' change events cause another sync once the cache has caught up.
        if !self.updates.satisfied(service.uid(), &self.slices, &self.api) {
            return Ok(());
        }
        let existing: Vec<SharedObject<EndpointSlice>> =
            self.slices.controlled_by(service.uid()).into_iter().filter(|s| slices::is_managed(s)).collect();
        let all = || members.iter().flat_map(|(_, members)| members);
        let zones = self.zones(all());
        let writes = slices::by_family(service, members, &zones, &existing);
        let is_there = writes == slices::SliceChanges::default();
        // Slices that another client deleted have no revision. The store's revision stands for that of the deletion.
        if self.hold(service, self.api.revision(), is_there, opinion(service, all(), &zones)).is_some()
            || is_there
        {
            return Ok(());
        }
        for slice in writes.create {
            self.updates.expect(service.uid(), &self.api.create_as(slice)?);
        }
        for slice in writes.update {
            let updated = self.api.modify::<EndpointSlice>(&Key::of(&slice.metadata), |fresh| {
                fresh.metadata.labels.clone_from(&slice.metadata.labels);
                fresh.endpoints.clone_from(&slice.endpoints);
                fresh.ports.clone_from(&slice.ports);
                Ok(())
            })?;
            self.updates.expect(service.uid(), &updated);
        }
        for key in writes.delete {
            ignore_not_found(self.api.delete(Kind::EndpointSlice, &key, &DeleteOptions::default()))?;
        }
        self.last_writes.record_write(service.uid(), self.api.revision());
        Ok(())
    }

    /// Returns the time to wait before the endpoints are written again because another client overwrites them; the
    /// service is requeued then.
    fn hold(
        &self,
        service: &SharedObject<Service>,
        observed: Revision,
        is_written: bool,
        opinion: u64,
    ) -> Option<Duration> {
        let left = self.last_writes.hold(service.uid(), observed, is_written, &opinion)?;
        self.queue.add_after(service.key(), left);
        Some(left)
    }

    fn zones<'a>(&self, members: impl Iterator<Item = &'a Member>) -> HashMap<String, String> {
        let mut zones = HashMap::new();
        for name in members.filter_map(|m| m.node.as_ref()) {
            if !zones.contains_key(name)
                && let Some(node) = self.nodes.get(&Key::new("", name.as_str()))
                && let Some(zone) = node.metadata.labels.as_ref().and_then(|l| l.get(ZONE))
            {
                zones.insert(name.clone(), zone.clone());
            }
        }
        zones
    }

    /// Slices are garbage collected with their owner, the service; Endpoints have no owner.
    fn service_deleted(&self, key: &Key) -> Result<(), ApiError> {
        if self.form == EndpointsFormat::Slices {
            return Ok(());
        }
        let is_managed =
            self.api.get_as::<Endpoints>(key).is_ok_and(|endpoints| legacy::is_managed(&endpoints));
        if !is_managed {
            return Ok(());
        }
        ignore_not_found(self.api.delete(Kind::Endpoints, key, &DeleteOptions::default()))
    }
}
