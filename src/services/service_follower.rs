//! Services joined with their EndpointSlices: which of them changed, and their current state.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::change_follower::{ChangeFollower, FollowedValues};
use api::{Change, ChangeKind};
use object::service::of_slice;
use object::{Key, Kind, SharedObject};
use reconcile::Caches;

/// A service and its EndpointSlices as they are now; `service` is `None` if it was deleted or never existed.
#[derive(Clone, Default)]
pub struct ServiceEndpoints {
    /// The Service object.
    pub service: Option<SharedObject<Service>>,
    /// Its EndpointSlices by key.
    pub slices: BTreeMap<Key, SharedObject<EndpointSlice>>,
}

impl ServiceEndpoints {
    fn is_empty(&self) -> bool {
        self.service.is_none() && self.slices.is_empty()
    }
}

/// Follows all services through the shared caches.
pub type Follower = ChangeFollower<ServiceEndpoints>;

impl Follower {
    /// Starts following; every existing service counts as changed.
    pub fn start(caches: &Caches) -> Arc<Self> {
        Self::follow(caches, &[Kind::Service, Kind::EndpointSlice], apply)
    }
}

fn apply(services: &mut FollowedValues<ServiceEndpoints>, change: &Change) {
    let now = (change.kind != ChangeKind::Deleted).then_some(&change.object);
    if change.object.kind() == Kind::Service {
        let key = change.object.key();
        edit(services, key, |joined| joined.service = now.and_then(SharedObject::from_object));
        return;
    }
    let slice = change.object.key();
    // A slice may move to another service.
    if let Some(before) = change.previous.as_ref().and_then(|before| of_slice(before.meta())) {
        edit(services, before, |joined| drop(joined.slices.remove(&slice)));
    }
    let Some(service) = of_slice(change.object.meta()) else { return };
    edit(services, service, |joined| match now.and_then(SharedObject::from_object) {
        Some(now) => drop(joined.slices.insert(slice, now)),
        None => drop(joined.slices.remove(&slice)),
    });
}

fn edit(services: &mut FollowedValues<ServiceEndpoints>, key: Key, edit: impl FnOnce(&mut ServiceEndpoints)) {
    services.update(key, |joined| {
        let mut joined = joined.unwrap_or_default();
        edit(&mut joined);
        (!joined.is_empty()).then_some(joined)
    });
}
