//! What is counted of webhooks that convert custom resources, under Kubernetes' names.

use prometheus::{HistogramVec, IntCounterVec};

use super::family::{About, Families, label, retain};

/// What was wrong with a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConversionFailure {
    /// The webhook could not be asked.
    Call,
    /// Its answer is none, or says that it failed.
    Malformed,
    /// It answered fewer or more objects than it was asked about.
    Partial,
    /// What it made of one is not that object in the version.
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

/// Which objects were to be converted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConversionCall<'a> {
    /// The definition's name.
    pub(crate) definition: &'a str,
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
    pub(crate) seconds: f64,
}

/// The families.
pub(crate) struct ConversionMetrics {
    requests: IntCounterVec,
    durations: HistogramVec,
    durations_of_definitions: HistogramVec,
}

impl ConversionMetrics {
    pub(super) fn new(families: &Families) -> Self {
        // From a millisecond on, each twice the last.
        let buckets: Vec<f64> = (0..15).map(|i| 0.001 * f64::from(1 << i)).collect();
        Self {
            requests: families.counters(
                About::alpha(
                    "apiserver_conversion_webhook_request_total",
                    "Counter for conversion webhook requests with success/failure and failure error type",
                ),
                &["failure_type", "result"],
            ),
            durations: families.histograms(
                About::alpha(
                    "apiserver_conversion_webhook_duration_seconds",
                    "Conversion webhook request latency",
                ),
                &["failure_type", "result"],
                &buckets,
            ),
            durations_of_definitions: families.histograms(
                About::alpha(
                    "apiserver_crd_conversion_webhook_duration_seconds",
                    "CRD webhook conversion duration in seconds",
                ),
                &["crd_name", "from_version", "succeeded", "to_version"],
                &buckets,
            ),
        }
    }

    /// A webhook was asked.
    pub(crate) fn asked(&self, call: ConversionCall<'_>, failure: Option<ConversionFailure>) {
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

    /// Ends the series of the definitions that are no more.
    pub(super) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        retain(&self.durations_of_definitions, |series| is_there(label(series, "crd_name")));
    }
}
