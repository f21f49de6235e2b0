//! ResourceQuotas: recounts a namespace's usage when something in it is deleted or shrinks (QUO-1).
//!
//! Additions are charged by admission before they are stored; this controller only finds released usage. The API itself
//! counts, while no write can be charged.

use std::time::Duration;

use k8s_openapi::api::core::v1::ResourceQuota;

use super::context::Context;
use api::{Api, Change, ChangeKind};
use object::quantity::{Amount, ResourceList};
use object::{Key, Kind, Object};
use reconcile::{Cache, ReconcileError, Reconciler, WorkQueue, optional};

/// The interval of a recount even without a known change.
const RESYNC: Duration = Duration::from_mins(5);

pub(super) fn start(context: &Context) {
    context
        .controller(|queue| ResourceQuotas { api: context.api.clone(), quotas: context.caches.of(), queue })
        .keys_of::<ResourceQuota>()
        .watches_every_kind(|kind| kind.namespaced() && kind != Kind::Event, ResourceQuotas::content_changed)
        .watches::<ResourceQuota, _>(ResourceQuotas::quota_changed)
        .workers(5)
        .run(&context.tasks);
}

struct ResourceQuotas {
    api: Api,
    quotas: Cache<ResourceQuota>,
    queue: WorkQueue<Key>,
}

impl Reconciler for ResourceQuotas {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        match optional(self.api.recount_quota(key))? {
            None => Ok(()),
            Some(_) => Err(ReconcileError::After(RESYNC)),
        }
    }
}

impl ResourceQuotas {
    fn quota_changed(&self, change: &Change) {
        let spec = |object: &Object| object.get::<ResourceQuota>().and_then(|quota| quota.spec.clone());
        let same = change.previous.as_ref().is_some_and(|before| spec(before) == spec(&change.object));
        if change.kind != ChangeKind::Modified || !same {
            self.queue.add(change.object.key());
        }
    }

    fn content_changed(&self, change: &Change) {
        let quotas = self.quotas.in_namespace(change.object.namespace());
        if quotas.is_empty() {
            return;
        }
        let (kinds, now) = (self.api.kinds(), self.api.clock().now());
        let before = change.previous.as_ref().map(|object| kinds.usage(object, now)).unwrap_or_default();
        let after = match change.kind {
            ChangeKind::Deleted => ResourceList::new(),
            _ => kinds.usage(&change.object, now),
        };
        if !shrinks(&before, &after) {
            return;
        }
        for quota in quotas {
            let mut limited = quota.spec.iter().flat_map(|s| s.hard.iter().flatten());
            if limited.any(|(name, _)| kinds.kind_using(name) == Some(change.object.kind())) {
                self.queue.add(quota.key());
            }
        }
    }
}

/// Returns true if the usage of some resource has decreased.
fn shrinks(before: &ResourceList, after: &ResourceList) -> bool {
    before.iter().any(|(name, quantity)| Amount::of(quantity) > Amount::in_list(Some(after), name))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

    use super::*;

    #[test]
    fn only_released_quota_causes_a_recount_quo_1() {
        let list = |pods: &str| ResourceList::from([("pods".to_string(), Quantity(pods.into()))]);
        assert!(shrinks(&list("1"), &ResourceList::new()));
        assert!(shrinks(&list("2"), &list("1")));
        assert!(!shrinks(&list("1"), &list("1000m")));
        assert!(!shrinks(&ResourceList::new(), &list("1")));
    }
}
