//! Metrics of fair queueing, labelled with the names of schemas and levels. A series is removed when the
//! object of that name is deleted.

use std::collections::HashSet;
use std::time::Duration;

use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::family::{Families, FamilyOptions, label, retain};

/// Kubernetes' buckets of the queueing time, in seconds.
const SECONDS: [f64; 12] = [0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0];

const NAMES: [&str; 2] = ["flow_schema", "priority_level"];

/// The metrics of fair queueing.
#[derive(Clone, Debug)]
pub struct FlowMetrics {
    dispatched: IntCounterVec,
    refused: IntCounterVec,
    waiting: IntGaugeVec,
    executing: IntGaugeVec,
    waited: HistogramVec,
}

impl FlowMetrics {
    pub(super) fn new(families: &Families) -> Self {
        let dispatched = FamilyOptions::beta(
            "apiserver_flowcontrol_dispatched_requests_total",
            "Number of requests executed by API Priority and Fairness subsystem",
        );
        let refused = FamilyOptions::beta(
            "apiserver_flowcontrol_rejected_requests_total",
            "Number of requests rejected by API Priority and Fairness subsystem",
        );
        let waiting = FamilyOptions::beta(
            "apiserver_flowcontrol_current_inqueue_requests",
            "Number of requests currently pending in queues of the API Priority and Fairness subsystem",
        );
        let executing = FamilyOptions::beta(
            "apiserver_flowcontrol_current_executing_requests",
            "Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API Priority \
             and Fairness subsystem",
        );
        let waited = FamilyOptions::beta(
            "apiserver_flowcontrol_request_wait_duration_seconds",
            "Length of time a request spent waiting in its queue",
        );
        Self {
            dispatched: families.counters(dispatched, &NAMES),
            refused: families.counters(refused, &[NAMES[0], NAMES[1], "reason"]),
            waiting: families.gauges(waiting, &NAMES),
            executing: families.gauges(executing, &NAMES),
            waited: families.histograms(waited, &["execute", NAMES[0], NAMES[1]], &SECONDS),
        }
    }

    /// Returns the counter of requests that were executed.
    pub fn dispatched(&self, level: &str, schema: &str) -> IntCounter {
        self.dispatched.with_label_values(&[schema, level])
    }

    /// Counts a refused request.
    pub fn refused(&self, (level, schema): (&str, &str), reason: &str) {
        self.refused.with_label_values(&[schema, level, reason]).inc();
    }

    /// Returns the gauge of waiting requests.
    pub fn waiting(&self, (level, schema): (&str, &str)) -> IntGauge {
        self.waiting.with_label_values(&[schema, level])
    }

    /// Returns the gauge of executing requests.
    pub fn executing(&self, (level, schema): (&str, &str)) -> IntGauge {
        self.executing.with_label_values(&[schema, level])
    }

    /// Records a wait, whether it ended with a seat or without.
    pub fn waited(&self, (level, schema): (&str, &str), executes: bool, time: Duration) {
        let executes = if executes { "true" } else { "false" };
        self.waited.with_label_values(&[executes, schema, level]).observe(time.as_secs_f64());
    }

    /// Removes the series of deleted schemas and levels without requests in progress.
    pub(super) fn retain(&self, names: &HashSet<String>) {
        let is_there =
            |series: &prometheus::proto::Metric| NAMES.iter().all(|name| names.contains(label(series, name)));
        let is_idle = |series: &prometheus::proto::Metric| series.get_gauge().get_value() == 0.0;
        retain(&self.dispatched, is_there);
        retain(&self.refused, is_there);
        retain(&self.waited, is_there);
        retain(&self.waiting, |series| is_there(series) || !is_idle(series));
        retain(&self.executing, |series| is_there(series) || !is_idle(series));
    }
}
