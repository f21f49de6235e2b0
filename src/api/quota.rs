//! The books of a namespace's quotas: what is used stands in their status, and is charged before the write
//! it is for.
//!
//! One lock is held from the charge until the write is made or given up, and while usage is counted anew:
//! so nobody counts objects that are charged and not there yet, and concurrent writes cannot both take the
//! last of something. What is charged and never written (the process ends in between) is found by the next
//! count.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use parking_lot::{Mutex, MutexGuard};

use super::{Api, ApiError};
use object::quantity::{Amount, ResourceList, add_to};
use object::quota::covers;
use object::{Key, Kind, Shared};

/// Held while a quota's usage is read to be acted upon.
#[derive(Default)]
pub(super) struct Books {
    // Held across in-memory writes, never across an await.
    lock: Mutex<()>,
}

/// What was charged for a write under way. Dropped without [`Charge::keep`], it is given back.
#[derive(Default)]
pub(super) struct Charge<'a> {
    open: Option<(&'a Api, MutexGuard<'a, ()>)>,
    taken: Vec<(Key, ResourceList)>,
}

impl Charge<'_> {
    /// The write is made: what was charged is used.
    pub(super) fn keep(mut self) {
        self.taken.clear();
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        let Some((api, _guard)) = &self.open else { return };
        for (quota, taken) in self.taken.drain(..) {
            let given_back = api.add_usage(&quota, &negative(&taken));
            if let Err(error) = given_back.map(drop)
                && !error.is_not_found()
            {
                tracing::warn!(%quota, "quota not given back, the next count will: {error}");
            }
        }
    }
}

/// The books of one namespace, while nobody else may write in them.
pub(super) struct OpenBooks<'a> {
    api: &'a Api,
    guard: MutexGuard<'a, ()>,
}

impl Api {
    /// Opens the books.
    pub(super) fn open_quotas(&self) -> OpenBooks<'_> {
        OpenBooks { api: self, guard: self.inner.quotas.lock.lock() }
    }

    /// Counts anew what the namespace uses of a quota, and writes it when it is not what the status says.
    pub fn recount_quota(&self, key: &Key) -> Result<Shared<ResourceQuota>, ApiError> {
        self.open_quotas().recount(key)
    }

    fn add_usage(&self, quota: &Key, more: &ResourceList) -> Result<Shared<ResourceQuota>, ApiError> {
        self.modify_status_unasked::<ResourceQuota>(quota, |quota| {
            let status = quota.status.get_or_insert_default();
            add_to(status.used.get_or_insert_default(), more);
            Ok(())
        })
    }
}

impl<'a> OpenBooks<'a> {
    /// See [`Api::recount_quota`].
    pub(super) fn recount(&self, key: &Key) -> Result<Shared<ResourceQuota>, ApiError> {
        self.api.modify_status_unasked::<ResourceQuota>(key, |quota| {
            let spec = quota.spec.clone().unwrap_or_default();
            let used = count(self.api, key.namespace(), &spec);
            let status = ResourceQuotaStatus { hard: spec.hard, used: Some(used) };
            // Another way of writing the same amounts is no change.
            if !quota.status.as_ref().is_some_and(|before| same_status(before, &status)) {
                quota.status = Some(status);
            }
            Ok(())
        })
    }

    /// Charges each quota with what is asked of it and closes the books once the write is done.
    pub(super) fn charge(self, asked: Vec<(Key, ResourceList)>) -> Result<Charge<'a>, ApiError> {
        let mut charge = Charge { open: Some((self.api, self.guard)), taken: Vec::new() };
        for (quota, asked) in asked {
            match self.api.add_usage(&quota, &asked) {
                Ok(_) => charge.taken.push((quota, asked)),
                // A quota that has gone limits nothing.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(charge)
    }
}

/// What the namespace's objects use of everything the quota limits.
fn count(api: &Api, namespace: Option<&str>, spec: &ResourceQuotaSpec) -> ResourceList {
    let now = api.server_clock().now();
    let known = api.kinds();
    let limited: BTreeMap<&String, Option<Kind>> =
        spec.hard.iter().flatten().map(|(name, _)| (name, known.kind_using(name))).collect();
    // Nothing is zero, and a resource that no kind uses stays so.
    let mut used: ResourceList = limited.keys().map(|name| ((*name).clone(), Quantity("0".into()))).collect();
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
    let amounts = |list: &Option<ResourceList>| -> BTreeMap<String, Amount> {
        list.iter().flatten().map(|(name, quantity)| (name.clone(), Amount::of(quantity))).collect()
    };
    amounts(&a.hard) == amounts(&b.hard) && amounts(&a.used) == amounts(&b.used)
}

fn negative(list: &ResourceList) -> ResourceList {
    let minus = |quantity: &Quantity| (Amount::ZERO - Amount::of(quantity)).to_text_like(quantity);
    list.iter().map(|(name, quantity)| (name.clone(), minus(quantity))).collect()
}
