//! The accounting of a namespace's quotas: usage is stored in their status and charged before the write.
//!
//! One lock is held from the charge until the write is stored or abandoned, and during recounts. Therefore no
//! recount misses objects that are charged and not stored yet, and concurrent writes cannot both take the
//! last of a resource. The next recount corrects charges whose write never happened because the process ended
//! in between.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use parking_lot::{Mutex, MutexGuard};

use super::{Api, ApiError};
use base::sort::CollectMap;
use object::quantity::{Amount, ResourceList, add_to};
use object::quota::covers;
use object::resources::amounts;
use object::{Key, Kind, SharedObject};

/// Locked while a quota's usage is read and the write depends on it.
#[derive(Default)]
pub(super) struct QuotaLock {
    // Held across in-memory writes, never across an await.
    lock: Mutex<()>,
}

/// The charge of a write in progress. If it is dropped without [`Charge::keep`], the charge is reverted.
#[derive(Default)]
pub(super) struct Charge<'a> {
    open: Option<(&'a Api, MutexGuard<'a, ()>)>,
    charged: Vec<(Key, ResourceList)>,
}

impl Charge<'_> {
    /// Makes the charge final: the write is stored.
    pub(super) fn keep(mut self) {
        self.charged.clear();
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        let Some((api, _guard)) = &self.open else { return };
        for (quota, taken) in self.charged.drain(..) {
            let given_back = api.add_usage(&quota, &negative(&taken));
            if let Err(error) = given_back.map(drop)
                && !error.is_not_found()
            {
                tracing::warn!(%quota, "cannot release quota; the next recount corrects it: {error}");
            }
        }
    }
}

/// The locked accounts of quotas.
pub(super) struct QuotaLockGuard<'a> {
    api: &'a Api,
    guard: MutexGuard<'a, ()>,
}

impl Api {
    /// Locks the accounts.
    pub(super) fn open_quotas(&self) -> QuotaLockGuard<'_> {
        QuotaLockGuard { api: self, guard: self.inner.quotas.lock.lock() }
    }

    /// Recounts the namespace's usage for a quota, and writes the status if it differs.
    pub fn recount_quota(&self, key: &Key) -> Result<SharedObject<ResourceQuota>, ApiError> {
        self.open_quotas().recount(key)
    }

    fn add_usage(&self, quota: &Key, more: &ResourceList) -> Result<SharedObject<ResourceQuota>, ApiError> {
        self.modify_status_without_webhooks::<ResourceQuota>(quota, |quota| {
            let status = quota.status.get_or_insert_default();
            add_to(status.used.get_or_insert_default(), more);
            Ok(())
        })
    }
}

impl<'a> QuotaLockGuard<'a> {
    /// See [`Api::recount_quota`].
    pub(super) fn recount(&self, key: &Key) -> Result<SharedObject<ResourceQuota>, ApiError> {
        self.api.modify_status_without_webhooks::<ResourceQuota>(key, |quota| {
            let spec = quota.spec.clone().unwrap_or_default();
            let used = count(self.api, key.namespace(), &spec);
            let status = ResourceQuotaStatus { hard: spec.hard, used: Some(used) };
            // Another notation of the same amounts is no change.
            if !quota.status.as_ref().is_some_and(|before| same_status(before, &status)) {
                quota.status = Some(status);
            }
            Ok(())
        })
    }

    /// Charges each quota, and holds the lock until the charge is dropped.
    pub(super) fn charge(self, requested: Vec<(Key, ResourceList)>) -> Result<Charge<'a>, ApiError> {
        let mut charge = Charge { open: Some((self.api, self.guard)), charged: Vec::new() };
        for (quota, requested) in requested {
            match self.api.add_usage(&quota, &requested) {
                Ok(_) => charge.charged.push((quota, requested)),
                // A deleted quota limits nothing.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(charge)
    }
}

/// Returns the namespace's usage of every resource that the quota limits.
fn count(api: &Api, namespace: Option<&str>, spec: &ResourceQuotaSpec) -> ResourceList {
    let now = api.server_clock().now();
    let known = api.kinds();
    let limited: BTreeMap<&String, Option<Kind>> =
        spec.hard.iter().flatten().map(|(name, _)| (name, known.kind_using(name))).collect_map();
    // Absent usage counts as zero, also for a resource that no kind uses.
    let mut used: ResourceList =
        limited.keys().map(|name| ((*name).clone(), Quantity("0".into()))).collect_map();
    let kinds: BTreeSet<Kind> = limited.values().flatten().copied().collect();
    for kind in kinds {
        for object in api.list(kind, namespace).objects.iter().filter(|o| covers(spec, o)) {
            let mut of_object = known.usage(object, now);
            of_object.retain(|name, _| limited.get(name).is_some_and(|k| *k == Some(kind)));
            add_to(&mut used, &of_object);
        }
    }
    used
}

fn same_status(a: &ResourceQuotaStatus, b: &ResourceQuotaStatus) -> bool {
    let amounts =
        |status: &ResourceQuotaStatus| [amounts(status.hard.as_ref()), amounts(status.used.as_ref())];
    amounts(a) == amounts(b)
}

fn negative(list: &ResourceList) -> ResourceList {
    let minus = |quantity: &Quantity| (Amount::ZERO - Amount::of(quantity)).to_text_like(quantity);
    list.iter().map(|(name, quantity)| (name.clone(), minus(quantity))).collect_map()
}
