//! Counters of a kubelet's work, and the subjects of that work.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Node;
use ::object::Key;
use api::controller_status::ReconcileResult;
use reconcile::FinishedReconcile;

/// The subject of a kubelet's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkItem {
    /// A pass over this pod.
    Pod(Key),
    /// The Node object and its lease.
    Node,
    /// The container runtime's health check.
    Runtime,
}

impl fmt::Display for WorkItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => write!(f, "{key}"),
            Self::Node => f.write_str("node status"),
            Self::Runtime => f.write_str("container runtime"),
        }
    }
}

/// Counters, each since the kubelet was started.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    panics: AtomicU64,
    probes: AtomicU64,
    failed_probes: AtomicU64,
    status_writes: AtomicU64,
}

impl Counts {
    /// Counts a pass over a pod that panicked.
    pub(crate) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a probe's result.
    pub(crate) fn probed(&self, is_success: bool) {
        self.probes.fetch_add(1, Ordering::Relaxed);
        if !is_success {
            self.failed_probes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a written status of a pod.
    pub(crate) fn wrote_status(&self) {
        self.status_writes.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the passes that panicked.
    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// The other counters by their names.
    pub(crate) fn all(&self) -> [(&'static str, u64); 3] {
        [
            ("probes", self.probes.load(Ordering::Relaxed)),
            ("failed probes", self.failed_probes.load(Ordering::Relaxed)),
            ("status writes", self.status_writes.load(Ordering::Relaxed)),
        ]
    }
}

impl Node {
    /// Records a failure of work other than on its pods; `started_at` is its start on the monotonic clock.
    pub(crate) fn note_failure(&self, work: WorkItem, started_at: Duration, reason: String) {
        let took = self.clock.monotonic().saturating_sub(started_at);
        self.figures.take(FinishedReconcile {
            key: work,
            waited: None,
            took,
            result: ReconcileResult::Failed(reason),
        });
    }
}
