//! The unpacked part of a pod: the fields for tables, counts and sums of many pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::interner::Interner;
use super::packed_object::PackedKind;
use super::pod_references::PodReferences;
use crate::pod_status;
use console_toolkit::health::Health;
use object::pod::PullProgress;
use object::quantity::Amount;
use object::resources::{Amounts, pod_level_resources, spec_requests};

#[derive(Clone, Debug, PartialEq)]
pub struct PodSummary {
    /// STATUS as kubectl prints it, or the progress of an image pull.
    pub status: Arc<str>,
    /// The progress of the image pulls for which the pod waits, in percent.
    pub(crate) pulled_percent: Option<u8>,
    pub health: Health,
    /// Ready containers.
    pub ready: u32,
    /// Containers in the READY total.
    pub total: u32,
    /// Restarts of the containers in the READY total.
    pub restarts: i32,
    /// End of the last run before a restart.
    pub(crate) last_restart: Option<Timestamp>,
    /// The time at which the pod will be removed at the latest, if it is being deleted.
    pub deletion_timestamp: Option<Timestamp>,
    /// The pod has ended and no longer uses resources.
    pub is_over: bool,
    /// The node it is bound to.
    pub node: Option<Arc<str>>,
    /// Its address.
    pub(crate) ip: Option<Box<str>>,
    /// Its quality of service.
    pub(crate) qos: Option<Arc<str>>,
    /// The images of its containers.
    pub images: Arc<str>,
    /// The limits of all its containers, if each has one: in thousandths of a CPU, and in bytes.
    pub(crate) limits: (Option<i64>, Option<i64>),
    /// The requests of its containers: in thousandths of a CPU, and in bytes.
    pub(crate) container_requests: (i64, i64),
    /// The requests that the scheduler counts.
    pub(crate) requests: Arc<Amounts>,
    /// The objects that its spec refers to.
    pub uses: Arc<PodReferences>,
}

impl PackedKind for Pod {
    type Summary = PodSummary;

    fn summarize(&self, interner: &mut Interner) -> PodSummary {
        let seen = pod_status::of(self);
        let spec = self.spec.as_ref();
        let status = self.status.as_ref();
        let images: Vec<&str> = spec
            .map(|spec| spec.containers.iter().filter_map(|c| c.image.as_deref()).collect())
            .unwrap_or_default();
        PodSummary {
            status: interner.text(&seen.with_progress()),
            pulled_percent: seen.pull.and_then(PullProgress::percent),
            health: seen.health,
            ready: u32::try_from(seen.ready).unwrap_or(u32::MAX),
            total: u32::try_from(seen.total).unwrap_or(u32::MAX),
            restarts: seen.restarts,
            last_restart: seen.last_restart,
            // The deletion timestamp already includes the grace period.
            deletion_timestamp: self.metadata.deletion_timestamp.as_ref().map(|time| time.0),
            is_over: is_over(self),
            node: spec.and_then(|spec| spec.node_name.as_deref()).map(|node| interner.text(node)),
            ip: status.and_then(|status| status.pod_ip.as_deref()).map(Into::into),
            qos: status.and_then(|status| status.qos_class.as_deref()).map(|qos| interner.text(qos)),
            images: interner.text(&images.join(",")),
            limits: limits(self),
            container_requests: requests(self),
            requests: interner.amounts(spec_requests(self)),
            uses: interner.uses(PodReferences::of(self)),
        }
    }
}

/// Reports whether a pod has ended and no longer uses resources.
pub fn is_over(pod: &Pod) -> bool {
    matches!(pod.status.as_ref().and_then(|s| s.phase.as_deref()), Some("Succeeded" | "Failed"))
}

/// Returns the containers that run as long as the pod does: sidecars and main containers.
fn lasting(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.spec.iter().flat_map(|spec| {
        let sidecars = spec.init_containers.iter().flatten();
        sidecars.filter(|init| init.restart_policy.as_deref() == Some("Always")).chain(&spec.containers)
    })
}

/// Returns the limits of a pod, its own or those of its containers if each has one: in thousandths of a CPU, and in
/// bytes.
pub(crate) fn limits(pod: &Pod) -> (Option<i64>, Option<i64>) {
    let sum = |resource: &str, of: fn(Amount) -> i64| {
        let limit = |limits: Option<&BTreeMap<String, Quantity>>| {
            limits
                .filter(|limits| limits.contains_key(resource))
                .map(|_| of(Amount::in_list(limits, resource)))
        };
        let whole = pod.spec.as_ref().and_then(pod_level_resources);
        let all = lasting(pod).map(|container| {
            limit(container.resources.as_ref().and_then(|resources| resources.limits.as_ref()))
        });
        let whole = limit(whole.and_then(|resources| resources.limits.as_ref()));
        whole.or_else(|| all.sum()).filter(|sum| *sum > 0)
    };
    (sum("cpu", Amount::millis), sum("memory", Amount::units))
}

/// Returns the requests of a pod: its own, or else the sum of its containers' requests.
fn requests(pod: &Pod) -> (i64, i64) {
    let mut total = (0_i64, 0_i64);
    for container in lasting(pod) {
        let requests = container.resources.as_ref().and_then(|r| r.requests.as_ref());
        total.0 = total.0.saturating_add(Amount::in_list(requests, "cpu").millis());
        total.1 = total.1.saturating_add(Amount::in_list(requests, "memory").units());
    }
    let whole = pod.spec.as_ref().and_then(pod_level_resources).and_then(|whole| whole.requests.as_ref());
    let of_pod = |resource: &str| whole.is_some_and(|requests| requests.contains_key(resource));
    if of_pod("cpu") {
        total.0 = Amount::in_list(whole, "cpu").millis();
    }
    if of_pod("memory") {
        total.1 = Amount::in_list(whole, "memory").units();
    }
    total
}
