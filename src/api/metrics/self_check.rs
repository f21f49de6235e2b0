//! Metrics of self-checks (SAFE-9) and of contained panics.

use prometheus::{IntCounter, IntCounterVec, IntGauge};

use super::family::{Families, FamilyOptions, set};

/// The metrics of self-checks and of contained panics.
pub struct SelfCheckMetrics {
    checks: IntCounter,
    disk: IntGauge,
    caches: IntGauge,
    panics: IntCounterVec,
}

impl SelfCheckMetrics {
    pub(super) fn new(families: &Families) -> Self {
        let checks = FamilyOptions::alpha(
            "podium_self_checks_total",
            "Number of completed self-checks of the cluster's state.",
        );
        let differing = FamilyOptions::alpha(
            "podium_state_differing_objects",
            "Number of objects that differ between two copies of the state, at the last check. 'disk' means between \
             memory and the data directory; 'caches' means between the caches of control loops and the state.",
        );
        let panics = FamilyOptions::alpha(
            "podium_panics_total",
            "Number of contained panics, by the part that panicked.",
        );
        let differing = families.gauges(differing, &["copy"]);
        Self {
            checks: families.counters(checks, &[]).with_label_values::<&str>(&[]),
            disk: differing.with_label_values(&["disk"]),
            caches: differing.with_label_values(&["caches"]),
            panics: families.counters(panics, &["part", "name"]),
        }
    }

    /// Records a check, and the number of differing objects that it found.
    pub fn checked(&self, on_disk: usize, in_caches: usize) {
        self.checks.inc();
        set(&self.disk, on_disk);
        set(&self.caches, in_caches);
    }

    /// Counts further panics.
    pub fn panicked(&self, part: &str, name: &str, more: u64) {
        self.panics.with_label_values(&[part, name]).inc_by(more);
    }
}
