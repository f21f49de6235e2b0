//! What the cluster's checks of itself have found (SAFE-9).

use prometheus::{IntCounter, IntGauge};

use super::family::{About, Families, set};

/// The families.
pub struct SelfCheckMetrics {
    checks: IntCounter,
    disk: IntGauge,
    caches: IntGauge,
}

impl SelfCheckMetrics {
    pub(super) fn new(families: &Families) -> Self {
        let checks = About::alpha(
            "podium_self_checks_total",
            "Number of checks of the cluster's state against itself.",
        );
        let differing = About::alpha(
            "podium_state_differing_objects",
            "Number of objects that differ between two copies of the state, at the last check. 'disk' means between \
             memory and the data directory; 'caches' means between the caches of control loops and the state.",
        );
        let differing = families.gauges(differing, &["copy"]);
        Self {
            checks: families.counters(checks, &[]).with_label_values::<&str>(&[]),
            disk: differing.with_label_values(&["disk"]),
            caches: differing.with_label_values(&["caches"]),
        }
    }

    /// A check is done, which found so many objects to differ.
    pub fn checked(&self, on_disk: usize, in_caches: usize) {
        self.checks.inc();
        set(&self.disk, on_disk);
        set(&self.caches, in_caches);
    }
}
