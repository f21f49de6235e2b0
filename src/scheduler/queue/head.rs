//! The status of the queue (CON-19).

use std::time::Duration;

use super::{Queue, SubQueue};
use object::Key;

/// The first pods of the queue.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueHead {
    /// Active pods in order, with waiting time and number of failed attempts.
    pub(crate) active: Vec<(Key, Duration, u32)>,
    /// Pods in back-off, with the remaining time and the number of failed attempts.
    pub(crate) backing_off: Vec<(Key, Duration, u32)>,
}

impl Queue {
    /// Returns the longest waiting time of an active pod.
    pub(crate) fn oldest(&self, now: Duration) -> Option<Duration> {
        let active = self.active.iter().filter_map(|(_, uid)| self.entries.get(uid)?.active_since());
        active.min().map(|since| now.saturating_sub(since))
    }

    /// Returns the first `most` pods of each part.
    pub(crate) fn first_pods(&self, now: Duration, most: usize) -> QueueHead {
        let active = self.active.iter().filter_map(|(_, uid)| {
            let entry = self.entries.get(uid)?;
            Some((entry.pod.key(), now.saturating_sub(entry.active_since()?), entry.failures))
        });
        let backing_off = self.backing_off.iter().filter_map(|(_, uid)| {
            let entry = self.entries.get(uid)?;
            let SubQueue::BackingOff { until, .. } = entry.sub_queue else { return None };
            Some((entry.pod.key(), until.saturating_sub(now), entry.failures))
        });
        QueueHead { active: active.take(most).collect(), backing_off: backing_off.take(most).collect() }
    }
}
