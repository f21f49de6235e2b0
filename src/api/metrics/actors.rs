//! Metrics of controllers and the scheduler.

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use prometheus::proto::MetricFamily;

use super::family::{Families, FamilyOptions, set};
use crate::Api;

/// The metrics of all work queues.
pub(super) struct WorkQueues {
    depth: IntGaugeVec,
    adds: IntCounterVec,
    retries: IntCounterVec,
    queue: HistogramVec,
    work: HistogramVec,
}

impl WorkQueues {
    pub(super) fn new(families: &Families) -> Self {
        // From ten nanoseconds on in powers of ten, as in client-go.
        let buckets: Vec<f64> = (0..12).map(|power| 10e-9 * 10_f64.powi(power)).collect();
        let depth = FamilyOptions::alpha("workqueue_depth", "Current depth of workqueue");
        let adds = FamilyOptions::alpha("workqueue_adds_total", "Total number of adds handled by workqueue");
        let retries =
            FamilyOptions::alpha("workqueue_retries_total", "Total number of retries handled by workqueue");
        let queue = FamilyOptions::alpha(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested.",
        );
        let work = FamilyOptions::alpha(
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes.",
        );
        Self {
            depth: families.gauges(depth, &["name"]),
            adds: families.counters(adds, &["name"]),
            retries: families.counters(retries, &["name"]),
            queue: families.histograms(queue, &["name"], &buckets),
            work: families.histograms(work, &["name"], &buckets),
        }
    }

    pub(super) fn named(&self, name: &str) -> WorkQueueMetrics {
        WorkQueueMetrics {
            depth: self.depth.with_label_values(&[name]),
            adds: self.adds.with_label_values(&[name]),
            retries: self.retries.with_label_values(&[name]),
            queue: self.queue.with_label_values(&[name]),
            work: self.work.with_label_values(&[name]),
        }
    }
}

/// The metrics of one work queue.
#[derive(Clone, Debug)]
pub struct WorkQueueMetrics {
    depth: IntGauge,
    adds: IntCounter,
    retries: IntCounter,
    queue: Histogram,
    work: Histogram,
}

impl WorkQueueMetrics {
    /// Sets the number of waiting keys.
    pub fn depth(&self, keys: usize) {
        set(&self.depth, keys);
    }

    /// Counts keys that were added and did not wait already.
    pub fn added(&self, keys: usize) {
        self.adds.inc_by(keys as u64);
    }

    /// Counts a key that is requeued for later.
    pub fn retried(&self) {
        self.retries.inc();
    }

    /// Records the waiting time of a key, in seconds.
    pub fn observe_queue_time(&self, seconds: f64) {
        self.queue.observe(seconds);
    }

    /// Records the duration of a reconcile, in seconds.
    pub fn worked(&self, seconds: f64) {
        self.work.observe(seconds);
    }
}

/// Returns the durations of reconciles in progress, by work queue.
pub(super) fn unfinished(api: &Api) -> Vec<MetricFamily> {
    let together = FamilyOptions::alpha(
        "workqueue_unfinished_work_seconds",
        "How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large values \
         indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases.",
    )
    .gauges(&["name"]);
    let longest = FamilyOptions::alpha(
        "workqueue_longest_running_processor_seconds",
        "How many seconds has the longest running processor for workqueue been running.",
    )
    .gauges(&["name"]);
    for (name, probe) in api.controllers() {
        if let Some(status) = probe.and_then(|probe| probe.work_queue()) {
            together.set(&[&name], status.unfinished.0.as_secs_f64());
            longest.set(&[&name], status.unfinished.1.as_secs_f64());
        }
    }
    [together.gather(), longest.gather()].concat()
}

/// The result of a scheduling attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleResult {
    /// The pod was bound to a node.
    Scheduled,
    /// No node accepts it.
    Unschedulable,
    /// The attempt failed with an error.
    Error,
}

/// The metrics of the scheduler.
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
            FamilyOptions::stable(
                "scheduler_pending_pods",
                "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means \
                 number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods that the \
                 scheduler attempted to schedule and failed; 'gated' is the number of unschedulable pods that the \
                 scheduler never attempted to schedule because they are gated.",
            ),
            &["queue"],
        );
        let attempts = FamilyOptions::stable(
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

    /// Sets the number of pods in each queue.
    pub fn pending(&self, active: usize, backoff: usize, unschedulable: usize, gated: usize) {
        set(&self.active, active);
        set(&self.backoff, backoff);
        set(&self.unschedulable, unschedulable);
        set(&self.gated, gated);
    }

    /// Counts an attempt at a pod of this profile.
    pub fn attempted(&self, profile: &str, result: ScheduleResult) {
        let result = match result {
            ScheduleResult::Scheduled => "scheduled",
            ScheduleResult::Unschedulable => "unschedulable",
            ScheduleResult::Error => "error",
        };
        self.attempts.with_label_values(&[profile, result]).inc();
    }
}
