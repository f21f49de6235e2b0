//! Read your own writes: whether a cache shows what its reader has written.
//!
//! Sizes that are judged together (a Deployment's ReplicaSets) must all be as new as the last step that was
//! taken, or the next one would be based on room that is already used. [`super::Expectations`] serve objects that
//! come and go; these serve objects that change.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::Cache;
use api::Api;
use object::{Key, Revision, Shared, Typed, Uid};

/// The versions written last, by the owner they were written for.
#[derive(Default)]
pub struct UpdateExpectations {
    owners: Mutex<HashMap<Uid, HashMap<Key, Revision>>>,
}

impl UpdateExpectations {
    /// `object` was written for `owner`: the cache is to show it, or something newer.
    pub fn expect<T: Typed>(&self, owner: &str, object: &Shared<T>) {
        let mut owners = self.owners.lock();
        owners.entry(owner.to_string()).or_default().insert(object.key(), object.object().revision());
    }

    /// Whether the cache shows everything written for `owner`, or something newer.
    pub fn satisfied<T: Typed>(&self, owner: &str, cache: &Cache<T>, api: &Api) -> bool {
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

    /// `owner` is gone.
    pub fn forget(&self, owner: &str) {
        self.owners.lock().remove(owner);
    }
}
