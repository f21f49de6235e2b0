//! Whether a cache shows what its reader has written.
//!
//! Sizes that are judged together (a Deployment's ReplicaSets) must all be as new as the last step that was
//! taken, or the next one would be based on room that is already used. [`crate::reconcile::Expectations`]
//! serve objects that come and go; this serves objects that change.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::api::Api;
use crate::object::{Key, Revision, Shared, Typed, Uid};
use crate::reconcile::Cache;

/// The versions written last, by the owner they were written for.
#[derive(Default)]
pub(super) struct Written {
    owners: Mutex<HashMap<Uid, HashMap<Key, Revision>>>,
}

impl Written {
    /// `object` was written for `owner`.
    pub(super) fn note<T: Typed>(&self, owner: &str, object: &Shared<T>) {
        let mut owners = self.owners.lock();
        owners.entry(owner.to_string()).or_default().insert(object.key(), object.object().revision());
    }

    /// Whether the cache shows everything written for `owner`, or something newer.
    pub(super) fn is_seen<T: Typed>(&self, owner: &str, cache: &Cache<T>, api: &Api) -> bool {
        let mut owners = self.owners.lock();
        let Some(written) = owners.get_mut(owner) else { return true };
        written.retain(|key, revision| match cache.get(key) {
            Some(shown) => shown.object().revision() < *revision,
            None => api.get(T::ROW, key).is_ok(),
        });
        if written.is_empty() {
            owners.remove(owner);
            return true;
        }
        false
    }

    /// `owner` is gone.
    pub(super) fn forget(&self, owner: &str) {
        self.owners.lock().remove(owner);
    }
}
