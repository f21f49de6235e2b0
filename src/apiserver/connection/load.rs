//! The resources of all connections together: their number, and the bytes of responses that are produced and
//! not read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Limits on all connections together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of connections; further ones wait in the listener's queue. Each needs a file descriptor,
    /// and the process needs others.
    pub connections: usize,
    /// Bytes of responses that are produced and that clients have not read. Beyond it no more are produced
    /// until some are read or their clients are disconnected.
    pub unread_bytes: usize,
}

impl Limits {
    /// More than the clients of one machine need.
    const MAX_CONNECTIONS: usize = 4096;

    /// Returns limits for a process that may open this many files: at most half of them are connections.
    pub fn with_descriptors(open_files: u64) -> Self {
        let half = usize::try_from(open_files / 2).unwrap_or(usize::MAX);
        Self { connections: half.clamp(1, Self::MAX_CONNECTIONS), ..Self::default() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        // A tenth of a small machine's memory; thousands of clients that read their responses need a fraction
        // of it.
        Self { connections: Self::MAX_CONNECTIONS, unread_bytes: 128 << 20 }
    }
}

/// The accounting.
#[derive(Debug)]
pub(crate) struct Load {
    limits: Limits,
    free: Arc<Semaphore>,
    unread: AtomicUsize,
    /// Notified when unread bytes fall below the limit.
    capacity_freed: Arc<Notify>,
}

impl Load {
    pub(crate) fn new(limits: Limits) -> Self {
        let free = Arc::new(Semaphore::new(limits.connections));
        Self { limits, free, unread: AtomicUsize::new(0), capacity_freed: Arc::default() }
    }

    /// Waits until one more connection is permitted, and counts it.
    pub(crate) async fn connection(&self) -> Option<OwnedSemaphorePermit> {
        self.free.clone().acquire_owned().await.ok()
    }

    /// Bytes that are produced and not read at present.
    pub(crate) fn unread_bytes(&self) -> usize {
        self.unread.load(Ordering::Relaxed)
    }

    /// Returns true if no connection or no memory for responses is left, so that clients without progress are
    /// disconnected sooner.
    pub(super) fn is_scarce(&self) -> bool {
        self.free.available_permits() == 0 || self.unread_bytes() >= self.limits.unread_bytes
    }

    pub(super) fn has_capacity(&self) -> bool {
        self.unread_bytes() < self.limits.unread_bytes
    }

    pub(super) fn capacity_freed(&self) -> &Arc<Notify> {
        &self.capacity_freed
    }

    pub(super) fn add_buffered(&self, bytes: usize) {
        self.unread.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn add_sent(&self, bytes: usize) {
        let before = self.unread.fetch_sub(bytes, Ordering::Relaxed);
        if before >= self.limits.unread_bytes && before - bytes < self.limits.unread_bytes {
            self.capacity_freed.notify_waiters();
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
        assert_eq!(Limits::with_descriptors(u64::MAX).connections, Limits::MAX_CONNECTIONS);
    }
}
