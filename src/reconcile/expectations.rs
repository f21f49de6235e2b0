//! Expectations: a controller's writes that its cache does not show yet.
//!
//! A controller that created three pods and looks again before its cache has them would create three more. It
//! therefore expects them, and acts only once the cache has shown them (or after five minutes, should a watch event
//! be lost).

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use base::mistakes::Mistake;
use object::Uid;

/// The age at which expectations expire.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Expected creations and deletions, by owner.
#[derive(Debug)]
pub struct Expectations<K> {
    owners: Mutex<HashMap<K, ControlleeExpectations>>,
}

#[derive(Debug)]
struct ControlleeExpectations {
    creations: HashSet<Uid>,
    deletions: HashSet<Uid>,
    since: Instant,
}

impl ControlleeExpectations {
    fn new() -> Self {
        Self { creations: HashSet::new(), deletions: HashSet::new(), since: Instant::now() }
    }
}

impl<K: Eq + Hash + Clone> Default for Expectations<K> {
    fn default() -> Self {
        Self { owners: Mutex::default() }
    }
}

impl<K: Eq + Hash + Clone> Expectations<K> {
    /// Creates an empty set of expectations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Expects the cache to show an object with this uid, which was created for `owner`.
    pub fn expect_creation(&self, owner: &K, uid: impl Into<Uid>) {
        self.with(owner, |expected| {
            expected.creations.insert(uid.into());
        });
    }

    /// Expects the cache to show the object with this uid terminating or deleted, because its deletion was requested.
    pub fn expect_deletion(&self, owner: &K, uid: impl Into<Uid>) {
        self.with(owner, |expected| {
            expected.deletions.insert(uid.into());
        });
    }

    /// Notes that the cache shows an object of `owner`; `terminating` if its deletion has started.
    pub fn creation_observed(&self, owner: &K, uid: &str, terminating: bool) {
        self.observe(owner, |expected| {
            expected.creations.remove(uid);
            if terminating {
                expected.deletions.remove(uid);
            }
        });
    }

    /// Notes that the cache shows the deletion of an object of `owner`.
    pub fn deletion_observed(&self, owner: &K, uid: &str) {
        self.observe(owner, |expected| {
            expected.creations.remove(uid);
            expected.deletions.remove(uid);
        });
    }

    /// Returns true if the cache shows every expected write for `owner`, or the expectations have expired: the
    /// controller can act on it.
    pub fn satisfied(&self, owner: &K) -> bool {
        self.waits(owner).is_none()
    }

    /// Returns the time until the expectations of `owner` expire; `None` if they are fulfilled or have expired.
    ///
    /// After its watch expires, a cache lists again and reports nothing about objects that came and went meanwhile. No
    /// event may bring `owner` back then, so the caller must requeue it after this time.
    pub fn waits(&self, owner: &K) -> Option<Duration> {
        if Mistake::ForgetExpectation.is_enabled() {
            return None;
        }
        let left = TIMEOUT.saturating_sub(self.owners.lock().get(owner)?.since.elapsed());
        (!left.is_zero()).then_some(left)
    }

    /// Drops the expectations of a deleted owner.
    pub fn forget(&self, owner: &K) {
        self.owners.lock().remove(owner);
    }

    fn with(&self, owner: &K, edit: impl FnOnce(&mut ControlleeExpectations)) {
        let mut owners = self.owners.lock();
        let expected = owners.entry(owner.clone()).or_insert_with(ControlleeExpectations::new);
        if expected.since.elapsed() >= TIMEOUT {
            // Their events were lost: this write does not wait for them.
            *expected = ControlleeExpectations::new();
        }
        expected.since = Instant::now();
        edit(expected);
    }

    fn observe(&self, owner: &K, edit: impl FnOnce(&mut ControlleeExpectations)) {
        let mut owners = self.owners.lock();
        if let Some(expected) = owners.get_mut(owner) {
            edit(expected);
            if expected.creations.is_empty() && expected.deletions.is_empty() {
                owners.remove(owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_owner_waits_for_what_it_did_safe_6() {
        let expectations = Expectations::new();
        assert!(expectations.satisfied(&"rs"));
        expectations.expect_creation(&"rs", "a");
        expectations.expect_deletion(&"rs", "b");
        expectations.creation_observed(&"rs", "a", false);
        assert!(!expectations.satisfied(&"rs"));
        expectations.creation_observed(&"rs", "b", true);
        assert!(expectations.satisfied(&"rs"));
        assert_eq!(expectations.waits(&"rs"), None);
        expectations.expect_creation(&"rs", "lost");
        tokio::time::advance(TIMEOUT / 2).await;
        assert_eq!(expectations.waits(&"rs"), Some(TIMEOUT / 2), "the remaining wait is known");
        tokio::time::advance(TIMEOUT / 2).await;
        assert!(expectations.satisfied(&"rs"), "a lost event does not stop a controller for ever");
        expectations.expect_creation(&"rs", "next");
        assert!(!expectations.satisfied(&"rs"));
        expectations.creation_observed(&"rs", "next", false);
        assert!(expectations.satisfied(&"rs"), "nor does it delay the controller's next writes");
    }
}
