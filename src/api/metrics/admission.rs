//! Metrics of webhooks and policies, labelled with their names. A series is removed when the object of that
//! name is deleted.

use std::collections::HashSet;

use prometheus::{HistogramVec, IntCounterVec};

use super::family::{Families, FamilyOptions, label, retain};

/// Higher codes are counted as this one, as in Kubernetes.
const MAX_CODE: u16 = 600;

/// The result of a webhook call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WebhookOutcome {
    /// It allowed the request.
    Allowed,
    /// It denied the request with this code.
    Refused(u16),
    /// The call failed, and the request was denied for that.
    Failed,
    /// The call failed, which its failure policy ignores.
    Ignored,
}

/// The labels of a webhook call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WebhookCall<'a> {
    pub(crate) name: &'a str,
    /// `admit` or `validating`.
    pub(crate) admission_type: &'static str,
    pub(crate) operation: &'static str,
    pub(crate) seconds: f64,
}

pub(crate) struct AdmissionMetrics {
    webhook_durations: HistogramVec,
    webhook_requests: IntCounterVec,
    webhook_rejections: IntCounterVec,
    webhook_ignored: IntCounterVec,
    policy_checks: IntCounterVec,
}

impl AdmissionMetrics {
    pub(super) fn new(families: &Families) -> Self {
        Self {
            webhook_durations: families.histograms(
                FamilyOptions::stable(
                    "apiserver_admission_webhook_admission_duration_seconds",
                    "Admission webhook latency histogram in seconds, identified by name and broken out for each \
                     operation and API resource and type (validate or admit).",
                ),
                &["name", "operation", "rejected", "type"],
                &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0],
            ),
            webhook_requests: families.counters(
                FamilyOptions::alpha(
                    "apiserver_admission_webhook_request_total",
                    "Admission webhook request total, identified by name and broken out for each admission type \
                     (validating or mutating) and operation. Additional labels specify whether the request was \
                     rejected or not and an HTTP status code. Codes greater than 600 are truncated to 600, to keep the \
                     metrics cardinality bounded.",
                ),
                &["code", "name", "operation", "rejected", "type"],
            ),
            webhook_rejections: families.counters(
                FamilyOptions::alpha(
                    "apiserver_admission_webhook_rejection_count",
                    "Admission webhook rejection count, identified by name and broken out for each admission type \
                     (validating or admit) and operation. Additional labels specify an error type \
                     (calling_webhook_error or apiserver_internal_error if an error occurred; no_error otherwise) and \
                     optionally a non-zero rejection code if the webhook rejects the request with an HTTP status code \
                     (honored by the apiserver when the code is greater or equal to 400). Codes greater than 600 are \
                     truncated to 600, to keep the metrics cardinality bounded.",
                ),
                &["error_type", "name", "operation", "rejection_code", "type"],
            ),
            webhook_ignored: families.counters(
                FamilyOptions::alpha(
                    "apiserver_admission_webhook_fail_open_count",
                    "Admission webhook fail open count, identified by name and broken out for each admission type \
                     (validating or mutating).",
                ),
                &["name", "type"],
            ),
            policy_checks: families.counters(
                FamilyOptions::beta(
                    "apiserver_validating_admission_policy_check_total",
                    "Validation admission policy check total, labeled by policy and further identified by binding and \
                     enforcement action taken.",
                ),
                &["enforcement_action", "error_type", "policy", "policy_binding"],
            ),
        }
    }

    /// Records a webhook call.
    pub(crate) fn record_webhook_call(&self, call: WebhookCall<'_>, outcome: WebhookOutcome) {
        let WebhookCall { name, admission_type: sort, operation, seconds } = call;
        let (code, refused_for) = match outcome {
            WebhookOutcome::Allowed => (200, None),
            WebhookOutcome::Refused(code) => (code.min(MAX_CODE), Some("no_error")),
            WebhookOutcome::Failed => (0, Some("calling_webhook_error")),
            WebhookOutcome::Ignored => (0, None),
        };
        let (code, rejected) = (code.to_string(), if refused_for.is_some() { "true" } else { "false" });
        self.webhook_durations.with_label_values(&[name, operation, rejected, sort]).observe(seconds);
        self.webhook_requests.with_label_values(&[&code, name, operation, rejected, sort]).inc();
        if let Some(error) = refused_for {
            self.webhook_rejections.with_label_values(&[error, name, operation, &code, sort]).inc();
        }
        if outcome == WebhookOutcome::Ignored {
            self.webhook_ignored.with_label_values(&[name, sort]).inc();
        }
    }

    /// Counts a failed validation of a policy, by binding and action: `deny`, `warn` or `audit`.
    pub(crate) fn policy_failed(&self, policy: &str, binding: &str, message: &str, action: &str) {
        // Kubernetes also derives the type of the error from the message.
        let error = if message.starts_with("compilation") {
            "compile_error"
        } else if message.contains("out of cost budget") {
            "out_of_budget"
        } else {
            "invalid_error"
        };
        self.policy_checks.with_label_values(&[action, error, policy, binding]).inc();
    }

    /// Removes the series of deleted webhooks, policies and bindings.
    pub(super) fn retain(
        &self,
        webhooks: &HashSet<String>,
        policies: &HashSet<String>,
        bindings: &HashSet<String>,
    ) {
        let is_hook = |series: &prometheus::proto::Metric| webhooks.contains(label(series, "name"));
        retain(&self.webhook_durations, is_hook);
        retain(&self.webhook_requests, is_hook);
        retain(&self.webhook_rejections, is_hook);
        retain(&self.webhook_ignored, is_hook);
        retain(&self.policy_checks, |series| {
            let binding = label(series, "policy_binding");
            policies.contains(label(series, "policy")) && (binding.is_empty() || bindings.contains(binding))
        });
    }
}
