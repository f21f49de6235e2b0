//! What a controller has said of its objects, so that it does not argue.
//!
//! Two controllers that see different things (two copies of one whose caches are not equally new) each write their own status,
//! and each write is an event that wakes the other: as many writes as the machine can make, until the caches agree. One that
//! has said the same a few times, and each time finds that somebody has said otherwise, therefore waits before it says it
//! again.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use object::{Revision, Uid};

/// How often it is said anew at once.
const AT_ONCE: u32 = 3;
/// How long it waits from then on between two times.
const PATIENCE: Duration = Duration::from_secs(5);
/// After so long without a word it is as if nobody had contradicted.
const FORGOTTEN: Duration = Duration::from_mins(1);

/// What was said last, by the uid of the object that it was said of.
#[derive(Debug)]
pub struct LastSaid<S> {
    said: Mutex<HashMap<Uid, Said<S>>>,
}

#[derive(Debug)]
struct Said<S> {
    what: S,
    /// The version that says so, and when it was written; none before it is.
    written: Option<(Revision, Instant)>,
    /// How often it was written over what others had said.
    again: u32,
}

impl<S> Default for LastSaid<S> {
    fn default() -> Self {
        Self { said: Mutex::default() }
    }
}

impl<S: Clone + PartialEq> LastSaid<S> {
    /// The controller means `what` of the object, whose version `there` says so already or does not. How long to wait before
    /// it is written; none: at once, or not at all because it is there.
    pub fn hold(&self, uid: &str, there: Revision, is_there: bool, what: &S) -> Option<Duration> {
        let mut all = self.said.lock();
        let Some(said) = all.get_mut(uid).filter(|said| said.what == *what) else {
            // Another opinion than before: what it argued about is over.
            all.insert(uid.to_string(), Said { what: what.clone(), written: None, again: 0 });
            return None;
        };
        let (revision, at) = said.written?;
        let is_contradicted = !is_there && there > revision && said.again >= AT_ONCE;
        let left = PATIENCE.saturating_sub(at.elapsed());
        (is_contradicted && !left.is_zero()).then_some(left)
    }

    /// What the controller means was written, and is this version.
    pub fn wrote(&self, uid: &str, written: Revision) {
        let mut all = self.said.lock();
        let Some(said) = all.get_mut(uid) else { return };
        match said.written {
            // It was there already.
            Some((before, _)) if written <= before => return,
            Some((_, at)) if at.elapsed() < FORGOTTEN => said.again = said.again.saturating_add(1),
            _ => said.again = 0,
        }
        said.written = Some((written, Instant::now()));
    }

    /// The object is gone.
    pub fn forget(&self, uid: &str) {
        self.said.lock().remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_is_contradicted_says_it_a_few_times_and_then_waits_safe_6() {
        let said = LastSaid::default();
        let mut revision = Revision(1);
        let mut written = 0;
        // Somebody else writes 2 whenever 1 is there, and no time passes.
        while said.hold("set", revision, false, &1).is_none() {
            revision = revision.next();
            said.wrote("set", revision);
            revision = revision.next();
            written += 1;
            assert!(written < 100, "it argues without end");
        }
        assert_eq!(written, AT_ONCE + 1);
        assert_eq!(said.hold("set", revision, false, &1), Some(PATIENCE));
        assert_eq!(said.hold("other", revision, false, &1), None, "another object");
        tokio::time::advance(PATIENCE).await;
        assert_eq!(said.hold("set", revision, false, &1), None, "it says it again in the end");
        revision = revision.next();
        said.wrote("set", revision);
        assert_eq!(
            said.hold("set", revision.next(), false, &1),
            Some(PATIENCE),
            "and is as patient as before"
        );
        assert_eq!(said.hold("set", revision.next(), false, &3), None, "what is new is said at once");
    }

    /// Evictions spend from a budget's status and its controller gives back: each time it means something else in between.
    #[tokio::test(start_paused = true)]
    async fn who_changes_its_mind_is_not_contradicted_safe_6() {
        let said = LastSaid::default();
        for revision in (0..100).step_by(10) {
            assert_eq!(said.hold("budget", Revision(revision), false, &1), None);
            said.wrote("budget", Revision(revision + 1));
            assert_eq!(said.hold("budget", Revision(revision + 2), true, &0), None);
        }
        // A cache that does not show yet what was written is no contradiction.
        for _ in 0..10 {
            assert_eq!(said.hold("budget", Revision(90), false, &1), None);
            said.wrote("budget", Revision(93));
            assert_eq!(said.hold("budget", Revision(90), false, &1), None);
        }
    }
}
