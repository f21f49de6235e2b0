//! Metrics of the audit log.

use prometheus::{IntCounter, IntCounterVec};

use super::family::{Families, FamilyOptions};

/// The metrics of the audit log.
#[derive(Clone, Debug)]
pub struct AuditMetrics {
    events: IntCounter,
    errors: IntCounterVec,
    rejected: IntCounter,
    levels: IntCounterVec,
}

impl AuditMetrics {
    pub(super) fn new(families: &Families) -> Self {
        let events = FamilyOptions::alpha(
            "apiserver_audit_event_total",
            "Counter of audit events generated and sent to the audit backend.",
        );
        let errors = FamilyOptions::alpha(
            "apiserver_audit_error_total",
            "Counter of audit events that failed to be audited properly. Plugin identifies the plugin affected by the \
             error.",
        );
        let rejected = FamilyOptions::alpha(
            "apiserver_audit_requests_rejected_total",
            "Counter of apiserver requests rejected due to an error in audit logging backend.",
        );
        let levels = FamilyOptions::alpha(
            "apiserver_audit_level_total",
            "Counter of policy levels for audit events (1 per request).",
        );
        Self {
            events: families.counters(events, &[]).with_label_values::<&str>(&[]),
            errors: families.counters(errors, &["plugin"]),
            rejected: families.counters(rejected, &[]).with_label_values::<&str>(&[]),
            levels: families.counters(levels, &["level"]),
        }
    }

    /// Counts an event.
    pub fn event(&self) {
        self.events.inc();
    }

    /// Counts an event that could not be written.
    pub fn failed(&self) {
        self.errors.with_label_values(&["log"]).inc();
    }

    /// Counts a request that was refused because its event could not have been written.
    pub fn rejected(&self) {
        self.rejected.inc();
    }

    /// Counts a request by its level.
    pub fn decided(&self, level: &str) {
        self.levels.with_label_values(&[level]).inc();
    }
}
