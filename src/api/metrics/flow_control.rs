//! What is counted of fair queueing, by the names of schemas and levels: a series ends with what it is named for.

use std::collections::HashSet;
use std::time::Duration;

use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::family::{About, Families, label, retain};

/// Kubernetes' buckets of the time in a queue, in seconds.
const SECONDS: [f64; 12] = [0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0];

const NAMES: [&str; 2] = ["flow_schema", "priority_level"];

/// The families.
#[derive(Clone, Debug)]
pub(crate) struct FlowMetrics {
    dispatched: IntCounterVec,
    refused: IntCounterVec,
    waiting: IntGaugeVec,
    executing: IntGaugeVec,
    waited: HistogramVec,
}

impl FlowMetrics {
    pub(super) fn new(families: &Families) -> Self {
        let dispatched = About::beta(
            "apiserver_flowcontrol_dispatched_requests_total",
            "Number of requests executed by API Priority and Fairness subsystem",
        );
        let refused = About::beta(
            "apiserver_flowcontrol_rejected_requests_total",
            "Number of requests rejected by API Priority and Fairness subsystem",
        );
        let waiting = About::beta(
            "apiserver_flowcontrol_current_inqueue_requests",
            "Number of requests currently pending in queues of the API Priority and Fairness subsystem",
        );
        let executing = About::beta(
            "apiserver_flowcontrol_current_executing_requests",
            "Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API Priority \
             and Fairness subsystem",
        );
        let waited = About::beta(
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

    /// Counts those that were not held up for good.
    pub(crate) fn dispatched(&self, level: &str, schema: &str) -> IntCounter {
        self.dispatched.with_label_values(&[schema, level])
    }

    /// One was told to come again.
    pub(crate) fn refused(&self, (level, schema): (&str, &str), reason: &str) {
        self.refused.with_label_values(&[schema, level, reason]).inc();
    }

    /// How many wait.
    pub(crate) fn waiting(&self, (level, schema): (&str, &str)) -> IntGauge {
        self.waiting.with_label_values(&[schema, level])
    }

    /// How many have their seats.
    pub(crate) fn executing(&self, (level, schema): (&str, &str)) -> IntGauge {
        self.executing.with_label_values(&[schema, level])
    }

    /// One has waited, for its seat or in vain.
    pub(crate) fn waited(&self, (level, schema): (&str, &str), executes: bool, time: Duration) {
        let executes = if executes { "true" } else { "false" };
        self.waited.with_label_values(&[executes, schema, level]).observe(time.as_secs_f64());
    }

    /// Ends the series of the schemas and levels that are no more, and of which nothing is under way.
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
