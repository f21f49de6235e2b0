//! Metric families: each is registered once, under Kubernetes' name and with its stability in its help text.

use std::collections::HashMap;

use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::proto::{Counter, Metric, MetricFamily, MetricType};
use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

/// The name and help text of a family.
#[derive(Clone, Copy, Debug)]
pub struct FamilyOptions {
    name: &'static str,
    /// Kubernetes' stability promise; empty without one.
    stability: &'static str,
    help: &'static str,
}

impl FamilyOptions {
    /// Returns a metric whose name and labels do not change.
    pub const fn stable(name: &'static str, help: &'static str) -> Self {
        Self { name, stability: "[STABLE] ", help }
    }

    /// Returns a metric whose name does not change.
    pub const fn beta(name: &'static str, help: &'static str) -> Self {
        Self { name, stability: "[BETA] ", help }
    }

    /// Returns a metric that may change.
    pub const fn alpha(name: &'static str, help: &'static str) -> Self {
        Self { name, stability: "[ALPHA] ", help }
    }

    /// Returns a metric of cAdvisor, which makes no promise.
    pub const fn unclassified(name: &'static str, help: &'static str) -> Self {
        Self { name, stability: "", help }
    }

    fn options(self) -> Opts {
        Opts::new(self.name, format!("{}{}", self.stability, self.help))
    }

    /// Gauges for a single collection.
    pub fn gauges(self, labels: &[&str]) -> CollectedFamily {
        CollectedFamily { series: GaugeVec::new(self.options(), labels).expect(VALID), is_counter: false }
    }

    /// Counters for a single collection.
    pub fn counters(self, labels: &[&str]) -> CollectedFamily {
        CollectedFamily { is_counter: true, ..self.gauges(labels) }
    }
}

/// A family that is built for a single collection, from values that are stored outside of metrics.
pub struct CollectedFamily {
    series: GaugeVec,
    is_counter: bool,
}

impl CollectedFamily {
    /// Sets the series with these labels.
    pub fn set(&self, labels: &[&str], value: f64) {
        self.series.with_label_values(labels).set(value);
    }

    /// Returns the collected series.
    pub fn gather(&self) -> Vec<MetricFamily> {
        let mut families = self.series.collect();
        if self.is_counter {
            for family in &mut families {
                family.set_field_type(MetricType::COUNTER);
                for series in family.mut_metric() {
                    let mut counter = Counter::default();
                    counter.set_value(series.get_gauge().get_value());
                    series.set_counter(counter);
                }
            }
        }
        families
    }
}

/// The reason why creating a family cannot fail.
const VALID: &str = "the names of families and labels are written here, each once";

/// The registry of families.
#[derive(Debug, Default)]
pub(super) struct Families(pub(super) Registry);

impl Families {
    fn register<C: Collector + Clone + 'static>(&self, family: C) -> C {
        self.0.register(Box::new(family.clone())).expect(VALID);
        family
    }

    pub(super) fn counters(&self, about: FamilyOptions, labels: &[&str]) -> IntCounterVec {
        self.register(IntCounterVec::new(about.options(), labels).expect(VALID))
    }

    pub(super) fn gauges(&self, about: FamilyOptions, labels: &[&str]) -> IntGaugeVec {
        self.register(IntGaugeVec::new(about.options(), labels).expect(VALID))
    }

    pub(super) fn histograms(&self, about: FamilyOptions, labels: &[&str], buckets: &[f64]) -> HistogramVec {
        let options = HistogramOpts::from(about.options()).buckets(buckets.to_vec());
        self.register(HistogramVec::new(options, labels).expect(VALID))
    }
}

/// Returns the value of a label of a series.
pub(super) fn label<'a>(series: &'a Metric, name: &str) -> &'a str {
    let found = series.get_label().iter().find(|label| label.name() == name);
    found.map_or("", |label| label.value())
}

/// Removes the series that `is_retained` rejects.
pub(super) fn retain<B: MetricVecBuilder>(family: &MetricVec<B>, is_retained: impl Fn(&Metric) -> bool) {
    for collected in family.collect() {
        for series in collected.get_metric().iter().filter(|series| !is_retained(series)) {
            let labels: HashMap<&str, &str> =
                series.get_label().iter().map(|label| (label.name(), label.value())).collect();
            // Another thread may have removed it meanwhile.
            let _ = family.remove(&labels);
        }
    }
}

/// Sets a gauge to a count.
pub(super) fn set(gauge: &IntGauge, count: usize) {
    gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
}
