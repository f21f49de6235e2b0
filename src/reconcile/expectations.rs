//! What a controller has done and its cache has not shown yet.
//!
//! A controller that created three pods and looks again before its cache has them would create three more.
//! It therefore expects them, and acts only once they were seen (or five minutes have passed, should a
//! watch event ever be lost).

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use base::broken::Mistake;
use object::Uid;

/// Expectations older than this are not waited for.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Expected creations and deletions, by owner.
#[derive(Debug)]
pub struct Expectations<K> {
    owners: Mutex<HashMap<K, Expected>>,
}

#[derive(Debug)]
struct Expected {
    creations: HashSet<Uid>,
    deletions: HashSet<Uid>,
    since: Instant,
}

impl<K: Eq + Hash + Clone> Default for Expectations<K> {
    fn default() -> Self {
        Self { owners: Mutex::default() }
    }
}

impl<K: Eq + Hash + Clone> Expectations<K> {
    /// Nothing is expected.
    pub fn new() -> Self {
        Self::default()
    }

    /// An object with this uid was created for `owner` and has not been seen in the cache.
    pub fn expect_creation(&self, owner: &K, uid: impl Into<Uid>) {
        self.with(owner, |expected| {
            expected.creations.insert(uid.into());
        });
    }

    /// The object with this uid was asked to go and has not been seen terminating or gone.
    pub fn expect_deletion(&self, owner: &K, uid: impl Into<Uid>) {
        self.with(owner, |expected| {
            expected.deletions.insert(uid.into());
        });
    }

    /// The cache shows an object of `owner`: it exists, and `terminating` says whether it is going.
    pub fn seen(&self, owner: &K, uid: &str, terminating: bool) {
        self.observe(owner, |expected| {
            expected.creations.remove(uid);
            if terminating {
                expected.deletions.remove(uid);
            }
        });
    }

    /// The cache shows that an object of `owner` is gone.
    pub fn gone(&self, owner: &K, uid: &str) {
        self.observe(owner, |expected| {
            expected.creations.remove(uid);
            expected.deletions.remove(uid);
        });
    }

    /// Whether everything done for `owner` has been seen, so that its cache can be acted on.
    pub fn satisfied(&self, owner: &K) -> bool {
        self.waits(owner).is_none()
    }

    /// How long what was done for `owner` is waited for yet; none where all of it has been seen. A cache that has lost
    /// what it watched lists anew, and tells nothing of what came and went meanwhile: no event may bring `owner` back then,
    /// so that whoever waits looks again when this time is over.
    pub fn waits(&self, owner: &K) -> Option<Duration> {
        if Mistake::ForgetExpectation.is_made() {
            return None;
        }
        let left = TIMEOUT.saturating_sub(self.owners.lock().get(owner)?.since.elapsed());
        (!left.is_zero()).then_some(left)
    }

    /// `owner` is gone.
    pub fn forget(&self, owner: &K) {
        self.owners.lock().remove(owner);
    }

    fn with(&self, owner: &K, edit: impl FnOnce(&mut Expected)) {
        let mut owners = self.owners.lock();
        let expected = owners.entry(owner.clone()).or_insert_with(|| Expected {
            creations: HashSet::new(),
            deletions: HashSet::new(),
            since: Instant::now(),
        });
        expected.since = Instant::now();
        edit(expected);
    }

    fn observe(&self, owner: &K, edit: impl FnOnce(&mut Expected)) {
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
        expectations.seen(&"rs", "a", false);
        assert!(!expectations.satisfied(&"rs"));
        expectations.seen(&"rs", "b", true);
        assert!(expectations.satisfied(&"rs"));
        assert_eq!(expectations.waits(&"rs"), None);
        expectations.expect_creation(&"rs", "lost");
        tokio::time::advance(TIMEOUT / 2).await;
        assert_eq!(expectations.waits(&"rs"), Some(TIMEOUT / 2), "whoever waits knows when to look again");
        tokio::time::advance(TIMEOUT / 2).await;
        assert!(expectations.satisfied(&"rs"), "a lost event does not stop a controller for ever");
    }
}
