//! Metrics of conversion webhooks, under Kubernetes' names.

use prometheus::{HistogramVec, IntCounterVec};

use super::family::{Families, FamilyOptions, label, retain};

/// The reason why a conversion failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConversionFailure {
    /// The call failed.
    Call,
    /// The response is invalid, or reports a failure.
    Malformed,
    /// The response has a different number of objects than the request.
    Partial,
    /// A converted object is not the requested object, or not in the requested version.
    InvalidObject,
}

impl ConversionFailure {
    fn name(self) -> &'static str {
        match self {
            Self::Call => "conversion_webhook_call_failure",
            Self::Malformed => "conversion_webhook_malformed_response_failure",
            Self::Partial => "conversion_webhook_partial_response_failure",
            Self::InvalidObject => "conversion_webhook_invalid_converted_object_failure",
        }
    }
}

/// The labels of a conversion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConversionCall<'a> {
    /// The definition's name.
    pub(crate) definition: &'a str,
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
    pub(crate) seconds: f64,
}

pub(crate) struct ConversionMetrics {
    requests: IntCounterVec,
    durations: HistogramVec,
    durations_of_definitions: HistogramVec,
}

impl ConversionMetrics {
    pub(super) fn new(families: &Families) -> Self {
        // From a millisecond on, each twice the one before.
        let buckets: Vec<f64> = (0..15).map(|i| 0.001 * f64::from(1 << i)).collect();
        Self {
            requests: families.counters(
                FamilyOptions::alpha(
                    "apiserver_conversion_webhook_request_total",
                    "Counter for conversion webhook requests with success/failure and failure error type",
                ),
                &["failure_type", "result"],
            ),
            durations: families.histograms(
                FamilyOptions::alpha(
                    "apiserver_conversion_webhook_duration_seconds",
                    "Conversion webhook request latency",
                ),
                &["failure_type", "result"],
                &buckets,
            ),
            durations_of_definitions: families.histograms(
                FamilyOptions::alpha(
                    "apiserver_crd_conversion_webhook_duration_seconds",
                    "CRD webhook conversion duration in seconds",
                ),
                &["crd_name", "from_version", "succeeded", "to_version"],
                &buckets,
            ),
        }
    }

    /// Records a call.
    pub(crate) fn record_call(&self, call: ConversionCall<'_>, failure: Option<ConversionFailure>) {
        let ConversionCall { definition, from, to, seconds } = call;
        let labels = match failure {
            Some(failure) => [failure.name(), "failure"],
            None => ["", "success"],
        };
        self.requests.with_label_values(&labels).inc();
        self.durations.with_label_values(&labels).observe(seconds);
        let succeeded = if failure.is_none() { "true" } else { "false" };
        self.durations_of_definitions.with_label_values(&[definition, from, succeeded, to]).observe(seconds);
    }

    /// Removes the series of deleted definitions.
    pub(super) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        retain(&self.durations_of_definitions, |series| is_there(label(series, "crd_name")));
    }
}
