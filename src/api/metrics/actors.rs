//! What controllers and the scheduler tell of themselves.

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::family::{About, Families, set};

/// What all work queues have.
pub(super) struct WorkQueues {
    depth: IntGaugeVec,
    adds: IntCounterVec,
    retries: IntCounterVec,
    work: HistogramVec,
}

impl WorkQueues {
    pub(super) fn new(families: &Families) -> Self {
        // Of tens of nanoseconds, times ten each, as in client-go.
        let buckets: Vec<f64> = (0..12).map(|power| 10e-9 * 10_f64.powi(power)).collect();
        let depth = About::alpha("workqueue_depth", "Current depth of workqueue");
        let adds = About::alpha("workqueue_adds_total", "Total number of adds handled by workqueue");
        let retries = About::alpha("workqueue_retries_total", "Total number of retries handled by workqueue");
        let work = About::alpha(
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes.",
        );
        Self {
            depth: families.gauges(depth, &["name"]),
            adds: families.counters(adds, &["name"]),
            retries: families.counters(retries, &["name"]),
            work: families.histograms(work, &["name"], &buckets),
        }
    }

    pub(super) fn named(&self, name: &str) -> WorkQueueMetrics {
        WorkQueueMetrics {
            depth: self.depth.with_label_values(&[name]),
            adds: self.adds.with_label_values(&[name]),
            retries: self.retries.with_label_values(&[name]),
            work: self.work.with_label_values(&[name]),
        }
    }
}

/// What one work queue tells.
#[derive(Clone, Debug)]
pub struct WorkQueueMetrics {
    depth: IntGauge,
    adds: IntCounter,
    retries: IntCounter,
    work: Histogram,
}

impl WorkQueueMetrics {
    /// So many keys wait.
    pub fn depth(&self, keys: usize) {
        set(&self.depth, keys);
    }

    /// Keys were asked for that did not wait already.
    pub fn added(&self, keys: usize) {
        self.adds.inc_by(keys as u64);
    }

    /// A key is to come again later.
    pub fn retried(&self) {
        self.retries.inc();
    }

    /// The work on a key took so many seconds.
    pub fn worked(&self, seconds: f64) {
        self.work.observe(seconds);
    }
}

/// What came of trying to schedule a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleResult {
    /// It has a node.
    Scheduled,
    /// No node takes it.
    Unschedulable,
    /// Something went wrong.
    Error,
}

/// What the scheduler tells.
pub struct SchedulerMetrics {
    active: IntGauge,
    backoff: IntGauge,
    unschedulable: IntGauge,
    gated: IntGauge,
    attempts: IntCounterVec,
}

impl SchedulerMetrics {
    pub(super) fn new(families: &Families) -> Self {
        let pending = families.gauges(
            About::stable(
                "scheduler_pending_pods",
                "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means \
                 number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods that the \
                 scheduler attempted to schedule and failed; 'gated' is the number of unschedulable pods that the \
                 scheduler never attempted to schedule because they are gated.",
            ),
            &["queue"],
        );
        let attempts = About::stable(
            "scheduler_schedule_attempts_total",
            "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, \
             while 'error' means an internal scheduler problem.",
        );
        Self {
            active: pending.with_label_values(&["active"]),
            backoff: pending.with_label_values(&["backoff"]),
            unschedulable: pending.with_label_values(&["unschedulable"]),
            gated: pending.with_label_values(&["gated"]),
            attempts: families.counters(attempts, &["profile", "result"]),
        }
    }

    /// So many pods wait in each queue.
    pub fn pending(&self, active: usize, backoff: usize, unschedulable: usize, gated: usize) {
        set(&self.active, active);
        set(&self.backoff, backoff);
        set(&self.unschedulable, unschedulable);
        set(&self.gated, gated);
    }

    /// A pod of this profile was tried.
    pub fn attempted(&self, profile: &str, result: ScheduleResult) {
        let result = match result {
            ScheduleResult::Scheduled => "scheduled",
            ScheduleResult::Unschedulable => "unschedulable",
            ScheduleResult::Error => "error",
        };
        self.attempts.with_label_values(&[profile, result]).inc();
    }
}
