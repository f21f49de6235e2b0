//! Read your own writes: checks whether a cache shows what its reader has written.
//!
//! Sizes that are considered together (a Deployment's ReplicaSets) must all be as new as the last step, or the next
//! step would use the same surge or unavailability twice. [`super::Expectations`] serve objects that are created and
//! deleted; these serve objects that change.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::Cache;
use api::Api;
use object::{Key, Revision, SharedObject, TypedKind, Uid};

/// The versions written last, by the owner they were written for.
#[derive(Default)]
pub struct UpdateExpectations {
    owners: Mutex<HashMap<Uid, HashMap<Key, Revision>>>,
}

impl UpdateExpectations {
    /// Expects the cache to show `object`, which was written for `owner`, or a newer version.
    pub fn expect<T: TypedKind>(&self, owner: &str, object: &SharedObject<T>) {
        let mut owners = self.owners.lock();
        owners.entry(owner.to_string()).or_default().insert(object.key(), object.object().revision());
    }

    /// Returns true if the cache shows everything written for `owner`, or newer versions.
    pub fn satisfied<T: TypedKind>(&self, owner: &str, cache: &Cache<T>, api: &Api) -> bool {
        let mut owners = self.owners.lock();
        let Some(written) = owners.get_mut(owner) else { return true };
        written.retain(|key, revision| match cache.get(key) {
            Some(shown) => shown.object().revision() < *revision,
            None => api.get(T::kind(), key).is_ok(),
        });
        if written.is_empty() {
            owners.remove(owner);
            return true;
        }
        false
    }

    /// Drops the expectations of a deleted owner.
    pub fn forget(&self, owner: &str) {
        self.owners.lock().remove(owner);
    }
}
