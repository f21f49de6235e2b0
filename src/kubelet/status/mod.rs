//! A pod's status: a pure function of its object, what is observed of it, and the time (POD-1 … POD-4).
//!
//! Architecture Invariant: the kubelet composes the status of a pod only here; conditions that others own
//! (DisruptionTarget, readiness gates; PodScheduled, except its generation) pass through untouched. Others write single fields: the API sets
//! the status of a new pod, the scheduler and evictions set conditions, and `reconcile::disrupt` marks a pod as failed
//! whose node is gone.

mod conditions;
mod containers;
mod phase;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{Container, HostIP, Pod, PodIP, PodStatus};

use super::observed::{ObservedPod, StopCause};
use super::{plan, restart_all, spec};
use base::clock::{ClockReading, time};
pub(super) use containers::container_id;
use object::conditions::Condition as _;
use object::config::Timings;
use object::resources::{pod_level_resources, qos_class};
use object::well_known::condition::READY;
pub(crate) use phase::Phase;

/// The stage of a pod for which a status is composed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusStage {
    /// The pod lives, or is terminating.
    Current,
    /// Every process of it has exited for good: the phase must be a terminal one.
    Final,
}

/// Keeps a NotReady condition while the node's runtime does not respond, because the state of its pods is unknown.
/// Otherwise this kubelet and the node controller that set the condition would contradict each other without end.
pub(crate) fn keep_not_ready(pod: &Pod, status: &mut PodStatus) {
    let before = pod.status.as_ref().and_then(|before| before.conditions.as_ref());
    let reported = object::conditions::get(before, READY).filter(|ready| !ready.is_true());
    let mut ready = status.conditions.iter_mut().flatten().filter(|condition| condition.type_ == READY);
    if let (Some(reported), Some(ready)) = (reported, ready.next().filter(|ready| ready.is_true())) {
        ready.clone_from(reported);
    }
}

/// The desired status of the pod.
pub(crate) fn compose_status(
    pod: &Pod,
    observed: &ObservedPod,
    now: impl Into<ClockReading>,
    timings: &Timings,
    moment: StatusStage,
) -> PodStatus {
    let ClockReading { wall, steady } = now.into();
    let old = pod.status.clone().unwrap_or_default();
    if moment == StatusStage::Current && plan::is_terminal(pod) && observed.sandbox.is_none() {
        return old;
    }
    let mut status = containers::statuses(pod, observed, steady, timings, moment);
    containers::shorten_messages(&mut status);
    let old_phase = old.phase.as_deref().map_or(Phase::Pending, Phase::read);
    let all_ended = !spec::all_containers(pod).any(|(_, c)| observed.runs(&c.name));
    let ending_for_good = observed.stop.as_ref().is_some_and(|s| s.cause != StopCause::Shutdown) && all_ended;
    let mut phase = phase::of(pod, &status, moment == StatusStage::Final || ending_for_good);
    match observed.stop.as_ref().map(|s| &s.cause) {
        Some(StopCause::Failed { reason, message, .. }) if all_ended => {
            phase = Phase::Failed;
            status.reason = Some(reason.clone());
            status.message = Some(message.clone());
        }
        _ => {
            status.reason.clone_from(&old.reason);
            status.message.clone_from(&old.message);
        }
    }
    if phase.is_terminal() && observed.stop.is_none() && is_restarting(pod, observed) {
        phase = old_phase;
    }
    if moment == StatusStage::Final && !phase.is_terminal() {
        phase = Phase::Failed;
    }
    if phase.is_terminal() && !all_ended {
        // A phase is final only when nothing of the pod runs any more.
        phase = old_phase.max(Phase::Running);
    }
    // A pod never returns to an earlier phase (POD-1).
    let phase = if old_phase.is_terminal() { old_phase } else { phase.max(old_phase) };
    if phase.is_terminal() {
        containers::finish_statuses(pod, observed, &mut status);
    }
    status.phase = Some(phase.into());
    status.conditions = Some(conditions::conditions_of(pod, &old, &status, observed, phase, wall));

    let host_ips: Vec<HostIP> = observed.host_ips.all().map(|ip| HostIP { ip: ip.to_string() }).collect();
    status.host_ips = if host_ips.is_empty() { old.host_ips } else { Some(host_ips) };
    status.host_ip = status.host_ips.iter().flatten().next().map(|own| own.ip.clone()).or(old.host_ip);
    let has_address = observed.sandbox.is_some() || spec::spec(pod).host_network == Some(true);
    let own = observed.ips.all().filter(|_| has_address);
    let pod_ips: Vec<PodIP> = own.map(|ip| PodIP { ip: ip.to_string() }).collect();
    status.pod_ips = if pod_ips.is_empty() { old.pod_ips } else { Some(pod_ips) };
    status.pod_ip = status.pod_ips.iter().flatten().next().map(|own| own.ip.clone()).or(old.pod_ip);
    status.start_time = old.start_time.clone().or_else(|| Some(time(wall)));
    status.qos_class = old.qos_class.clone().or_else(|| Some(qos_class(pod).to_string()));
    status.observed_generation = pod.metadata.generation;

    status.extended_resource_claim_status = old.extended_resource_claim_status;
    status.node_allocatable_resource_claim_statuses = old.node_allocatable_resource_claim_statuses;
    status.nominated_node_name = old.nominated_node_name;
    status.resize = old.resize;
    status.resource_claim_statuses = old.resource_claim_statuses;
    // The resources of a whole pod are in effect since the sandbox was created: they are never resized.
    let whole = pod_level_resources(spec::spec(pod)).filter(|_| observed.sandbox.is_some());
    status.allocated_resources = whole.and_then(|whole| whole.requests.clone()).or(old.allocated_resources);
    status.resources = whole.cloned().or(old.resources);
    status.volume_health = old.volume_health;
    status
}

/// Returns true if containers of the pod that have ended are started again regardless of their restart policies.
fn is_restarting(pod: &Pod, observed: &ObservedPod) -> bool {
    let restarts = |container: &Container| {
        observed.latest(&container.name).is_some_and(|record| observed.restarts_for_change(record))
    };
    restart_all::is_in_progress(pod, observed) || spec::app_containers(pod).iter().any(restarts)
}
