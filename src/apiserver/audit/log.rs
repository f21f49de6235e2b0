//! The audit log: events wait in a queue, and a thread of its own writes them, one JSON document per line.
//!
//! No event is dropped while the file can be written: if the queue is full, further requests wait before they
//! start. Events that cannot be written are counted, reported, and lost.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Notify, oneshot};

use super::attributes::AuditAttributes;
use super::event::Event;
use super::file::{AuditFile, ERROR_REPORT_INTERVAL, RotatingFile};
use super::policy::{AuditPolicy, Decision};
use api::deadline::REQUEST_TIMEOUT;
use api::metrics::AuditMetrics;
use api::{Api, ApiError};
use base::clock::Clock;

/// The bytes of queued events beyond which requests wait.
const MAX_QUEUED: usize = 64 << 20;
/// The limit on the bytes of all recorded responses, each held until it ends.
const MAX_RESERVED: usize = 64 << 20;
/// The time that a shutdown waits for queued events.
const FLUSH: Duration = Duration::from_secs(5);

/// A handle to the log of API requests and their results.
#[derive(Clone)]
pub struct AuditLog {
    inner: Arc<Inner>,
}

struct Inner {
    policy: AuditPolicy,
    clock: Clock,
    metrics: AuditMetrics,
    queue: Sender<QueueEntry>,
    level: Arc<QueueUsage>,
    reserved: Arc<AtomicUsize>,
}

enum QueueEntry {
    Event(Box<Event>, usize),
    Flush(oneshot::Sender<()>),
}

/// The fill level of the queue.
#[derive(Default)]
struct QueueUsage {
    bytes: AtomicUsize,
    /// Notified when the level falls.
    decreased: Notify,
}

impl QueueUsage {
    /// Subtracts a written event.
    fn subtract(&self, weight: usize) {
        self.bytes.fetch_sub(weight, Ordering::AcqRel);
        self.decreased.notify_waiters();
    }
}

impl AuditLog {
    /// Opens the file and starts logging requests to this API as the policy demands.
    pub fn start(api: &Api, policy: AuditPolicy, to: AuditFile) -> io::Result<Self> {
        let mut file = RotatingFile::open(to)?;
        let (queue, queued) = mpsc::channel();
        let (level, clock) = (Arc::<QueueUsage>::default(), api.server_clock().clone());
        let metrics = api.metrics().audit.clone();
        let writer = {
            let (level, clock, metrics) = (level.clone(), clock.clone(), metrics.clone());
            move || run(&queued, &mut file, &level, &clock, &metrics)
        };
        std::thread::Builder::new().name("audit-log".into()).spawn(writer)?;
        let inner = Inner { policy, clock, metrics, queue, level, reserved: Arc::default() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Waits until the queue has capacity for another request.
    pub(crate) async fn reserve_capacity(&self) -> Result<(), ApiError> {
        let level = &self.inner.level;
        let is_full = || level.bytes.load(Ordering::Acquire) >= MAX_QUEUED;
        if !is_full() {
            return Ok(());
        }
        let capacity = async {
            loop {
                let sinks = level.decreased.notified();
                if !is_full() {
                    return;
                }
                sinks.await;
            }
        };
        let late = |_| {
            self.inner.metrics.rejected();
            ApiError::Timeout("cannot write the audit log fast enough".into())
        };
        tokio::time::timeout(REQUEST_TIMEOUT, capacity).await.map_err(late)
    }

    /// Waits until all earlier events are in the file, up to a timeout.
    pub async fn flush(&self) {
        let (done, written) = oneshot::channel();
        if self.inner.queue.send(QueueEntry::Flush(done)).is_ok() {
            let _ = tokio::time::timeout(FLUSH, written).await;
        }
    }

    pub(super) fn decide(&self, attributes: &AuditAttributes) -> Decision {
        let decision = self.inner.policy.decide(attributes);
        self.inner.metrics.decided(decision.level.name());
        decision
    }

    pub(super) fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    pub(super) fn write(&self, event: Event) {
        self.inner.metrics.event();
        let weight = event.weight();
        self.inner.level.bytes.fetch_add(weight, Ordering::AcqRel);
        if self.inner.queue.send(QueueEntry::Event(Box::new(event), weight)).is_err() {
            self.inner.metrics.failed();
            self.inner.level.subtract(weight);
        }
    }

    /// Returns a reservation for a response, initially empty.
    pub(super) fn reserve(&self) -> BodyReservation {
        BodyReservation { of: self.inner.reserved.clone(), bytes: 0 }
    }
}

/// Reserved memory for a response that is held until it ends; released on drop.
pub(super) struct BodyReservation {
    of: Arc<AtomicUsize>,
    bytes: usize,
}

impl BodyReservation {
    /// Reserves more, if available.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let fits = |all: usize| all.checked_add(bytes).filter(|all| *all <= MAX_RESERVED);
        let grown = self.of.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).is_ok();
        self.bytes += if grown { bytes } else { 0 };
        grown
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// Writes events until all senders are dropped.
fn run(
    queued: &Receiver<QueueEntry>,
    file: &mut RotatingFile,
    level: &QueueUsage,
    clock: &Clock,
    metrics: &AuditMetrics,
) {
    let mut complained: Option<Duration> = None;
    while let Ok(next) = queued.recv() {
        match next {
            QueueEntry::Flush(done) => drop(done.send(())),
            QueueEntry::Event(event, weight) => {
                // Bodies from clients are decoded here: a panic must not end the log.
                let line = catch_unwind(AssertUnwindSafe(|| event.line()))
                    .map_err(|_| io::Error::other("cannot encode an event"));
                if let Err(error) = line.and_then(|line| file.write(&line, clock.now())) {
                    metrics.failed();
                    let now = clock.monotonic();
                    if complained.is_none_or(|at| now.saturating_sub(at) >= ERROR_REPORT_INTERVAL) {
                        tracing::error!("cannot write the audit log; events are lost: {error}");
                        complained = Some(now);
                    }
                }
                level.subtract(weight);
            }
        }
    }
}
