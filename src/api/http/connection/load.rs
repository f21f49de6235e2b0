//! What all connections together hold: how many there are, and the bytes of answers that are made and not taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// What connections may hold together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once; others wait in the listener's queue. Each needs a descriptor, and the process has others
    /// to keep.
    pub connections: usize,
    /// Bytes of answers that were made and that clients have not taken yet. Beyond it no more are made until some
    /// are taken or their clients are cut off.
    pub unread_bytes: usize,
}

impl Limits {
    /// More than any client of one machine has use for.
    const MOST_CONNECTIONS: usize = 4096;

    /// At most half of this many descriptors are connections.
    pub fn with_descriptors(open_files: u64) -> Self {
        let half = usize::try_from(open_files / 2).unwrap_or(usize::MAX);
        Self { connections: half.clamp(1, Self::MOST_CONNECTIONS), ..Self::default() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        // A tenth of what a small machine has; thousands of clients that read need a fraction of it.
        Self { connections: Self::MOST_CONNECTIONS, unread_bytes: 128 << 20 }
    }
}

/// The books.
#[derive(Debug)]
pub(in crate::http) struct Load {
    limits: Limits,
    free: Arc<Semaphore>,
    unread: AtomicUsize,
    /// Notified when there is room for more unread bytes.
    room: Arc<Notify>,
}

impl Load {
    pub(in crate::http) fn new(limits: Limits) -> Self {
        let free = Arc::new(Semaphore::new(limits.connections));
        Self { limits, free, unread: AtomicUsize::new(0), room: Arc::default() }
    }

    /// Waits until there may be one more connection, and counts it.
    pub(in crate::http) async fn connection(&self) -> Option<OwnedSemaphorePermit> {
        self.free.clone().acquire_owned().await.ok()
    }

    /// Bytes made and not taken now.
    pub(in crate::http) fn unread_bytes(&self) -> usize {
        self.unread.load(Ordering::Relaxed)
    }

    /// Whether so much is in use that who holds something without need must give it up.
    pub(super) fn is_scarce(&self) -> bool {
        self.free.available_permits() == 0 || self.unread_bytes() >= self.limits.unread_bytes
    }

    pub(super) fn has_room(&self) -> bool {
        self.unread_bytes() < self.limits.unread_bytes
    }

    pub(super) fn room(&self) -> &Arc<Notify> {
        &self.room
    }

    pub(super) fn made(&self, bytes: usize) {
        self.unread.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn taken(&self, bytes: usize) {
        let before = self.unread.fetch_sub(bytes, Ordering::Relaxed);
        if before >= self.limits.unread_bytes && before - bytes < self.limits.unread_bytes {
            self.room.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_half_of_the_descriptors_to_others() {
        assert_eq!(Limits::with_descriptors(1024).connections, 512);
        assert_eq!(Limits::with_descriptors(1).connections, 1);
        assert_eq!(Limits::with_descriptors(u64::MAX).connections, Limits::MOST_CONNECTIONS);
    }
}
