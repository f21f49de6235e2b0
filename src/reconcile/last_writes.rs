//! The last status a controller wrote for each object, so that two controllers do not overwrite each other without
//! pause.
//!
//! Two controllers with different views (two copies of one, one of them with an older cache) each write their own
//! status, and each write is an event that wakes the other: as many writes as the machine can make, until the caches
//! agree. A controller that has written the same value a few times, and found it overwritten each time, therefore
//! waits before it writes it again.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use api::ApiError;
use object::{Revision, SharedObject, TypedKind, Uid};

use super::outcome::optional;

/// The number of rewrites without a pause.
const AT_ONCE: u32 = 3;
/// The pause between two rewrites after that.
const REWRITE_INTERVAL: Duration = Duration::from_secs(5);
/// After this long without a write, earlier overwrites no longer count.
const FORGOTTEN: Duration = Duration::from_mins(1);

/// The last written values, by the uid of their object.
#[derive(Debug)]
pub struct LastWrites<S> {
    writes: Mutex<HashMap<Uid, LastWrite<S>>>,
}

#[derive(Debug)]
struct LastWrite<S> {
    value: S,
    /// The version with this value, and the time of its write; `None` before the write.
    written: Option<(Revision, Instant)>,
    /// The number of times it was written over another client's value.
    rewrites: u32,
}

impl<S> Default for LastWrites<S> {
    fn default() -> Self {
        Self { writes: Mutex::default() }
    }
}

impl<S: Clone + PartialEq> LastWrites<S> {
    /// Notes that the controller wants to write `value` into the object. `there` is the object's version that the
    /// controller sees, and `is_there` is true if that version has the value already. Returns the time to wait before
    /// the write; `None` if it may be written now or needs no write.
    pub fn hold(&self, uid: &str, there: Revision, is_there: bool, value: &S) -> Option<Duration> {
        let mut all = self.writes.lock();
        let Some(last_write) = all.get_mut(uid).filter(|last_write| last_write.value == *value) else {
            // A value that differs from the last one starts without a pause.
            all.insert(uid.to_string(), LastWrite { value: value.clone(), written: None, rewrites: 0 });
            return None;
        };
        let (revision, at) = last_write.written?;
        let is_contradicted = !is_there && there > revision && last_write.rewrites >= AT_ONCE;
        let left = REWRITE_INTERVAL.saturating_sub(at.elapsed());
        (is_contradicted && !left.is_zero()).then_some(left)
    }

    /// Notes that the value was written as this version.
    pub fn record_write(&self, uid: &str, written: Revision) {
        let mut all = self.writes.lock();
        let Some(last_write) = all.get_mut(uid) else { return };
        match last_write.written {
            // The write changed nothing, so no other client's value was overwritten.
            Some((before, _)) if written <= before => return,
            Some((_, at)) if at.elapsed() < FORGOTTEN => {
                last_write.rewrites = last_write.rewrites.saturating_add(1);
            }
            _ => last_write.rewrites = 0,
        }
        last_write.written = Some((written, Instant::now()));
    }

    /// Writes `value` with `write`, unless the object has it already or is deleted. Returns the time to wait if the
    /// write must wait ([`LastWrites::hold`]).
    pub fn write<T: TypedKind>(
        &self,
        object: &SharedObject<T>,
        is_there: bool,
        value: &S,
        write: impl FnOnce() -> Result<SharedObject<T>, ApiError>,
    ) -> Result<Option<Duration>, ApiError> {
        let held = self.hold(object.uid(), object.revision(), is_there, value);
        if held.is_none()
            && !is_there
            && let Some(written) = optional(write())?
        {
            self.record_write(object.uid(), written.revision());
        }
        Ok(held)
    }

    /// Drops the entry of a deleted object.
    pub fn forget(&self, uid: &str) {
        self.writes.lock().remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_overwritten_status_is_written_a_few_times_and_then_delayed_safe_6() {
        let last_writes = LastWrites::default();
        let mut revision = Revision(1);
        let mut written = 0;
        // Another client writes 2 whenever the value is 1, and no time passes.
        while last_writes.hold("set", revision, false, &1).is_none() {
            revision = revision.next();
            last_writes.record_write("set", revision);
            revision = revision.next();
            written += 1;
            assert!(written < 100, "it argues without end");
        }
        assert_eq!(written, AT_ONCE + 1);
        assert_eq!(last_writes.hold("set", revision, false, &1), Some(REWRITE_INTERVAL));
        assert_eq!(last_writes.hold("other", revision, false, &1), None, "another object");
        tokio::time::advance(REWRITE_INTERVAL).await;
        assert_eq!(last_writes.hold("set", revision, false, &1), None, "it says it again in the end");
        revision = revision.next();
        last_writes.record_write("set", revision);
        assert_eq!(
            last_writes.hold("set", revision.next(), false, &1),
            Some(REWRITE_INTERVAL),
            "and is as patient as before"
        );
        assert_eq!(
            last_writes.hold("set", revision.next(), false, &3),
            None,
            "a new value is written at once"
        );
    }

    /// Evictions use up a budget in its status and the controller restores it: it wants another value in between each
    /// time.
    #[tokio::test(start_paused = true)]
    async fn a_changing_status_does_not_count_as_overwritten_safe_6() {
        let last_writes = LastWrites::default();
        for revision in (0..100).step_by(10) {
            assert_eq!(last_writes.hold("budget", Revision(revision), false, &1), None);
            last_writes.record_write("budget", Revision(revision + 1));
            assert_eq!(last_writes.hold("budget", Revision(revision + 2), true, &0), None);
        }
        // A cache that lags behind the write does not count as an overwrite.
        for _ in 0..10 {
            assert_eq!(last_writes.hold("budget", Revision(90), false, &1), None);
            last_writes.record_write("budget", Revision(93));
            assert_eq!(last_writes.hold("budget", Revision(90), false, &1), None);
        }
    }
}
