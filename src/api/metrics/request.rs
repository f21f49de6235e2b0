//! Metrics of requests. Labels come from fixed sets: served kinds and known verbs.

use http::StatusCode;
use prometheus::{HistogramVec, IntCounterVec, IntGauge, IntGaugeVec};

use super::family::{Families, FamilyOptions, label, retain};
use object::ServedKind;

/// Kubernetes' buckets of a request's duration, in seconds.
const SECONDS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];

/// Kubernetes' buckets of a response's size, in bytes.
const BYTES: [f64; 7] = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];

/// The label of the component.
const COMPONENT: &str = "apiserver";

/// Resources that are served and never stored: group, version and resource.
const ANSWERED_ONLY: [(&str, &str, &str); 12] = [
    ("", "v1", "bindings"),
    ("authentication.k8s.io", "v1", "selfsubjectreviews"),
    ("authentication.k8s.io", "v1", "tokenreviews"),
    ("authorization.k8s.io", "v1", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "v1", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "v1", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "v1", "subjectaccessreviews"),
    ("metrics.k8s.io", "v1beta1", "nodes"),
    ("metrics.k8s.io", "v1beta1", "pods"),
    ("podium.dev", "v1alpha1", "history"),
    ("podium.dev", "v1alpha1", "controllers"),
    ("podium.dev", "v1alpha1", "schedulingverdicts"),
];

/// Returns the group and version of a resource that is served and never stored; empty for others.
pub fn answered_only(resource: &str) -> (&'static str, &'static str, &'static str) {
    ANSWERED_ONLY.into_iter().find(|(_, _, plural)| *plural == resource).unwrap_or_default()
}

/// Returns true for resources that are served and never stored.
pub(super) fn is_answered_only(group: &str, version: &str, resource: &str) -> bool {
    ANSWERED_ONLY.contains(&(group, version, resource))
}

/// The labels of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestLabels {
    /// In upper case, as Kubernetes has it here.
    pub verb: &'static str,
    /// The API group; empty for the core group, and for requests without a resource.
    pub group: &'static str,
    /// The version of the group.
    pub version: &'static str,
    /// Empty for requests without a resource.
    pub resource: &'static str,
    /// For requests without a resource, its path.
    pub subresource: &'static str,
    /// `cluster`, `namespace` or `resource`; empty for requests without a resource.
    pub scope: &'static str,
    /// `All` for a dry run, `invalid` if the request names other stages; otherwise empty.
    pub dry_run: &'static str,
}

impl RequestLabels {
    /// Returns true for long-running requests, whose durations are meaningless.
    pub fn is_long_running(&self) -> bool {
        matches!(self.verb, "WATCH" | "WATCHLIST" | "CONNECT") || self.subresource == "log"
    }

    fn is_read_only(&self) -> bool {
        matches!(self.verb, "GET" | "LIST" | "WATCH" | "WATCHLIST")
    }

    fn without_dry_run(&self) -> [&'static str; 7] {
        [COMPONENT, self.group, self.resource, self.scope, self.subresource, self.verb, self.version]
    }
}

/// The metrics of requests over HTTP.
pub struct RequestMetrics {
    total: IntCounterVec,
    durations: HistogramVec,
    sizes: HistogramVec,
    long_running: IntGaugeVec,
    read_only: IntGauge,
    mutating: IntGauge,
    watch_events: IntCounterVec,
}

impl RequestMetrics {
    pub(super) fn new(families: &Families) -> Self {
        let in_flight = families.gauges(
            FamilyOptions::stable(
                "apiserver_current_inflight_requests",
                "Maximal number of currently used inflight request limit of this apiserver per request kind in last \
                 second.",
            ),
            &["request_kind"],
        );
        let without_dry_run = ["component", "group", "resource", "scope", "subresource", "verb", "version"];
        Self {
            total: families.counters(
                FamilyOptions::stable(
                    "apiserver_request_total",
                    "Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, \
                     scope, component, and HTTP response code.",
                ),
                &["code", "component", "dry_run", "group", "resource", "scope", "subresource", "verb", "version"],
            ),
            durations: families.histograms(
                FamilyOptions::stable(
                    "apiserver_request_duration_seconds",
                    "Response latency distribution in seconds for each verb, dry run value, group, version, resource, \
                     subresource, scope and component.",
                ),
                &["component", "dry_run", "group", "resource", "scope", "subresource", "verb", "version"],
                &SECONDS,
            ),
            sizes: families.histograms(
                FamilyOptions::stable(
                    "apiserver_response_sizes",
                    "Response size distribution in bytes for each group, version, verb, resource, subresource, scope \
                     and component.",
                ),
                &without_dry_run,
                &BYTES,
            ),
            long_running: families.gauges(
                FamilyOptions::stable(
                    "apiserver_longrunning_requests",
                    "Gauge of all active long-running apiserver requests broken out by verb, group, version, \
                     resource, scope and component. Not all requests are tracked this way.",
                ),
                &without_dry_run,
            ),
            read_only: in_flight.with_label_values(&["readOnly"]),
            mutating: in_flight.with_label_values(&["mutating"]),
            watch_events: families.counters(
                FamilyOptions::alpha("apiserver_watch_events_total", "Number of events sent in watch clients"),
                &["group", "kind", "version"],
            ),
        }
    }

    /// Returns the gauge of requests in progress with these labels.
    pub fn in_flight(&self, labels: &RequestLabels) -> IntGauge {
        if labels.is_long_running() {
            return self.long_running.with_label_values(&labels.without_dry_run());
        }
        if labels.is_read_only() { self.read_only.clone() } else { self.mutating.clone() }
    }

    /// Records a response, its duration in seconds, and its size in bytes.
    pub fn answered(&self, labels: &RequestLabels, code: StatusCode, seconds: f64, bytes: u64) {
        let RequestLabels { verb, group, version, resource, subresource, scope, dry_run } = *labels;
        let with_dry_run = [COMPONENT, dry_run, group, resource, scope, subresource, verb, version];
        self.total
            .with_label_values(&[
                code.as_str(),
                COMPONENT,
                dry_run,
                group,
                resource,
                scope,
                subresource,
                verb,
                version,
            ])
            .inc();
        self.durations.with_label_values(&with_dry_run).observe(seconds);
        if matches!(verb, "GET" | "LIST") {
            self.sizes.with_label_values(&labels.without_dry_run()).observe(bytes as f64);
        }
    }

    /// Counts an event that is sent to a watcher of this kind.
    pub fn watch_event(&self, served: ServedKind) {
        let name = served.kind().info().name;
        self.watch_events.with_label_values(&[served.group(), name, served.version()]).inc();
    }

    /// Removes the series of resources that are no longer served; `is_served` takes group, version and
    /// resource, `has_kind` takes group, version and kind.
    pub(super) fn retain(
        &self,
        is_served: impl Fn(&str, &str, &str) -> bool,
        has_kind: impl Fn(&str, &str, &str) -> bool,
    ) {
        let is_retained = |series: &prometheus::proto::Metric| {
            let resource = label(series, "resource");
            resource.is_empty() || is_served(label(series, "group"), label(series, "version"), resource)
        };
        retain(&self.total, is_retained);
        retain(&self.durations, is_retained);
        retain(&self.sizes, is_retained);
        retain(&self.long_running, is_retained);
        retain(&self.watch_events, |series| {
            has_kind(label(series, "group"), label(series, "version"), label(series, "kind"))
        });
    }
}
