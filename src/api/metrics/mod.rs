//! The cluster's metrics in `/metrics`, under Kubernetes' names (API-19).
//!
//! Recording uses atomics behind a lock that is shared, except when a new series is added. The number of
//! series is bounded: label values come from fixed sets, or are names of stored objects, and such series are
//! removed with the objects.
//!
//! Architecture Invariant: no decision depends on a metric.

mod actors;
mod admission;
mod audit;
mod conversion;
mod family;
mod flow_control;
mod request;
mod self_check;

use std::collections::HashSet;

use prometheus::Registry;
use prometheus::proto::MetricFamily;

pub use self::actors::{ScheduleResult, SchedulerMetrics, WorkQueueMetrics};
pub(crate) use self::admission::{AdmissionMetrics, WebhookCall, WebhookOutcome};
pub use self::audit::AuditMetrics;
pub(crate) use self::conversion::{ConversionCall, ConversionFailure, ConversionMetrics};
use self::family::Families;
pub use self::family::{CollectedFamily, FamilyOptions};
pub use self::flow_control::FlowMetrics;
pub use self::request::{RequestLabels, RequestMetrics, answered_only};
pub use self::self_check::SelfCheckMetrics;
use crate::Api;
use object::{Kind, Object};

/// All metrics.
pub struct Metrics {
    registry: Registry,
    /// Metrics of requests over HTTP.
    pub requests: RequestMetrics,
    pub(crate) admission: AdmissionMetrics,
    /// Metrics of the audit log.
    pub audit: AuditMetrics,
    pub(crate) conversions: ConversionMetrics,
    /// Metrics of fair queueing.
    pub flows: FlowMetrics,
    work_queues: actors::WorkQueues,
    scheduler: SchedulerMetrics,
    self_checks: SelfCheckMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        let families = Families::default();
        Self {
            requests: RequestMetrics::new(&families),
            admission: AdmissionMetrics::new(&families),
            audit: AuditMetrics::new(&families),
            conversions: ConversionMetrics::new(&families),
            flows: FlowMetrics::new(&families),
            work_queues: actors::WorkQueues::new(&families),
            scheduler: SchedulerMetrics::new(&families),
            self_checks: SelfCheckMetrics::new(&families),
            registry: families.0,
        }
    }
}

impl Metrics {
    /// Returns the metrics of the work queue of this name.
    pub fn work_queue(&self, name: &str) -> WorkQueueMetrics {
        self.work_queues.named(name)
    }

    /// Returns the metrics of self-checks.
    pub fn self_checks(&self) -> &SelfCheckMetrics {
        &self.self_checks
    }

    /// Returns the metrics of the scheduler.
    pub fn scheduler(&self) -> &SchedulerMetrics {
        &self.scheduler
    }
}

/// The kinds whose objects' names are labels of admission metrics.
const NAMED: [Kind; 4] = [
    Kind::MutatingWebhookConfiguration,
    Kind::ValidatingWebhookConfiguration,
    Kind::ValidatingAdmissionPolicy,
    Kind::ValidatingAdmissionPolicyBinding,
];

impl Api {
    /// Returns the log of contained panics.
    pub fn contained(&self) -> &base::panics::PanicLog {
        &self.inner.contained
    }

    /// Returns all metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// Removes the series of deleted objects after a write or deletion of an object of their kind, so that
    /// series end even if metrics are never scraped.
    pub(crate) fn end_series_of(&self, object: &Object) {
        let kind = object.kind();
        if matches!(kind, Kind::FlowSchema | Kind::PriorityLevelConfiguration) {
            self.end_series_of_flows();
        } else if NAMED.contains(&kind) {
            self.end_series_of_admission();
        } else if kind == Kind::CustomResourceDefinition && self.get(kind, &object.key()).is_err() {
            self.end_series_of_requests();
        }
    }

    fn end_series_of_requests(&self) {
        let kinds = self.kinds();
        self.metrics().requests.retain(
            |group, version, resource| {
                let is_answered = request::is_answered_only(group, version, resource);
                is_answered || kinds.by_path(group, version, resource).is_some()
            },
            |group, version, kind| {
                let api_version =
                    if group.is_empty() { version.to_string() } else { format!("{group}/{version}") };
                kinds.by_api_version(&api_version, kind).is_some()
            },
        );
        self.metrics().conversions.retain(|definition| {
            let (plural, group) = definition.split_once('.').unwrap_or((definition, ""));
            kinds.is_defined(group, plural)
        });
    }

    fn end_series_of_flows(&self) {
        let names = [Kind::FlowSchema, Kind::PriorityLevelConfiguration].map(|kind| self.names_of(kind));
        self.metrics().flows.retain(&names.into_iter().flatten().collect());
    }

    fn end_series_of_admission(&self) {
        self.metrics().admission.retain(
            &self.inner.webhooks.names(self),
            &self.names_of(Kind::ValidatingAdmissionPolicy),
            &self.names_of(Kind::ValidatingAdmissionPolicyBinding),
        );
    }

    /// Returns the names of all stored objects of a kind.
    fn names_of(&self, kind: Kind) -> HashSet<String> {
        self.list(kind, None).objects.iter().map(|object| object.name().to_string()).collect()
    }

    /// Returns all registered metrics, and those of stored objects and work in progress.
    pub fn metric_families(&self) -> Vec<MetricFamily> {
        // Removes series that were in use when their object was deleted.
        self.end_series_of_requests();
        self.end_series_of_admission();
        self.end_series_of_flows();
        let mut families = self.metrics().registry.gather();
        families.extend(self.objects());
        families.extend(actors::unfinished(self));
        families
    }

    /// Returns the number of stored objects.
    fn objects(&self) -> Vec<MetricFamily> {
        let by_group = FamilyOptions::alpha(
            "apiserver_resource_objects",
            "Number of stored objects at the time of last check split by kind. In case of a fetching error, the value \
             will be -1.",
        )
        .gauges(&["group", "resource"]);
        let by_name = FamilyOptions::stable(
            "apiserver_storage_objects",
            "(Deprecated since 1.34.0) [DEPRECATED, consider using apiserver_resource_objects instead] Number of stored \
             objects at the time of last check split by kind. In case of a fetching error, the value will be -1.",
        )
        .gauges(&["resource"]);
        for kind in self.kinds().all() {
            let (info, count) = (kind.info(), self.count(kind));
            by_group.set(&[info.group, info.plural], count as f64);
            by_name.set(&[info.qualified_plural().as_str()], count as f64);
        }
        [by_group.gather(), by_name.gather()].concat()
    }
}
