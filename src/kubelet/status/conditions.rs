//! The conditions the kubelet owns (POD-2): PodReadyToStartContainers, Initialized, ContainersReady, Ready; and the
//! generation of PodScheduled, which the scheduler owns.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodStatus};

use super::Phase;
use super::containers::init_done;
use crate::observed::{ObservedPod, StopCause};
use crate::restart_all;
use crate::spec::{self, Role};
use base::clock::time;
use object::conditions::{self, Condition as _, ConditionStatus};
use object::pod::can_restart_all;
use object::pod::disruption::DisruptionReason;
use object::well_known::condition::{
    CONTAINERS_READY, DISRUPTION_TARGET, INITIALIZED, POD_SCHEDULED, READY, READY_TO_START_CONTAINERS,
};

/// All containers are being restarted by a rule of one (`RestartAllContainers`).
const ALL_CONTAINERS_RESTARTING: &str = "AllContainersRestarting";

/// True, or False with a reason and a message.
type ConditionResult = Result<(), (&'static str, Option<String>)>;

/// All conditions of the pod: its old ones, with the kubelet's own updated.
pub(super) fn conditions_of(
    pod: &Pod,
    old: &PodStatus,
    status: &PodStatus,
    observed: &ObservedPod,
    phase: Phase,
    now: Timestamp,
) -> Vec<PodCondition> {
    let mut all = old.conditions.clone().unwrap_or_default();
    for scheduled in all.iter_mut().filter(|condition| condition.type_ == POD_SCHEDULED) {
        scheduled.observed_generation = pod.metadata.generation;
    }
    resize(&mut all, pod, observed, phase, now);
    let sandbox = if observed.sandbox_ready() && !phase.is_terminal() { Ok(()) } else { Err(("", None)) };
    let containers = containers_ready(pod, status, phase);
    let ready = containers.clone().and_then(|()| gates_pass(pod, old));
    for (type_, result) in [
        (READY_TO_START_CONTAINERS, sandbox),
        (INITIALIZED, initialized(pod, status, phase)),
        (READY, ready),
        (CONTAINERS_READY, containers),
    ] {
        set(&mut all, type_, &result, pod.metadata.generation, now);
    }
    if can_restart_all(spec::spec(pod)) {
        let is_restarting = !phase.is_terminal() && restart_all::is_in_progress(pod, observed);
        let (status, reason, message) = if is_restarting {
            let message = "container exited with restart policy rule";
            (ConditionStatus::True, Some("RestartAllContainersStarted"), Some(message))
        } else {
            (ConditionStatus::False, None, None)
        };
        let next = condition(ALL_CONTAINERS_RESTARTING, status, reason, message, now);
        conditions::set(&mut all, of_generation(next, pod.metadata.generation));
    }
    if let Some(StopCause::Failed { message, disrupted: true, .. }) = observed.stop.as_ref().map(|s| &s.cause)
    {
        let reason = DisruptionReason::Kubelet.reason();
        let target = condition(DISRUPTION_TARGET, ConditionStatus::True, Some(reason), Some(message), now);
        conditions::set(&mut all, of_generation(target, pod.metadata.generation));
    }
    all
}

/// The conditions of a resize: pending, and in progress. Without a resize neither is set.
fn resize(all: &mut Vec<PodCondition>, pod: &Pod, observed: &ObservedPod, phase: Phase, now: Timestamp) {
    let (pending, failed) = (observed.resize.pending.as_ref(), observed.resize.failed.as_ref());
    let alive = !phase.is_terminal() && observed.stop.is_none();
    let pending = pending.filter(|_| alive && observed.resize.is_requested(pod));
    let pending = pending.map(|p| (Some(p.reason), Some(p.message.as_str()), p.generation));
    let started = observed.resize.started.filter(|_| alive);
    let in_progress = started.map(|generation| {
        (failed.map(|_| "Error"), failed.map(|failed| failed.message.as_str()), Some(generation))
    });
    for (type_, state) in [("PodResizeInProgress", in_progress), ("PodResizePending", pending)] {
        let Some((reason, message, generation)) = state else {
            all.retain(|c| c.type_ != type_);
            continue;
        };
        let next = condition(type_, ConditionStatus::True, reason, message, now);
        let next = of_generation(next, generation);
        // A new condition comes before the others, as in Kubernetes.
        match conditions::get(Some(all), type_) {
            None => all.insert(0, next),
            Some(_) => conditions::set(all, next),
        }
    }
}

/// A condition that starts now.
fn condition(
    type_: &str,
    status: ConditionStatus,
    reason: Option<&str>,
    message: Option<&str>,
    now: Timestamp,
) -> PodCondition {
    PodCondition {
        type_: type_.into(),
        status: status.into(),
        reason: reason.map(str::to_string),
        message: message.map(str::to_string),
        last_transition_time: Some(time(now)),
        ..PodCondition::default()
    }
}

fn of_generation(condition: PodCondition, generation: Option<i64>) -> PodCondition {
    PodCondition { observed_generation: generation, ..condition }
}

fn set(
    all: &mut Vec<PodCondition>,
    type_: &'static str,
    result: &ConditionResult,
    generation: Option<i64>,
    now: Timestamp,
) {
    let next = match result {
        Ok(()) => condition(type_, ConditionStatus::True, None, None, now),
        Err((reason, message)) => {
            let reason = Some(*reason).filter(|reason| !reason.is_empty());
            condition(type_, ConditionStatus::False, reason, message.as_deref(), now)
        }
    };
    conditions::set(all, of_generation(next, generation));
}

fn names(list: &[&str]) -> String {
    format!("[{}]", list.join(" "))
}

fn find<'a>(list: Option<&'a Vec<ContainerStatus>>, name: &str) -> Option<&'a ContainerStatus> {
    list.into_iter().flatten().find(|s| s.name == name)
}

fn initialized(pod: &Pod, status: &PodStatus, phase: Phase) -> ConditionResult {
    if phase == Phase::Succeeded {
        return Ok(());
    }
    let unfinished: Vec<&str> = spec::init_containers(pod)
        .filter(|(role, c)| {
            find(status.init_container_statuses.as_ref(), &c.name).is_none_or(|s| {
                // A sidecar that has started once keeps the pod initialized while it restarts.
                let ran_once = *role == Role::Sidecar && (s.restart_count > 0 || s.container_id.is_some());
                !(init_done(*role, s) || (ran_once && containers_started(status)))
            })
        })
        .map(|(_, c)| c.name.as_str())
        .collect();
    if unfinished.is_empty() {
        return Ok(());
    }
    Err((
        "ContainersNotInitialized",
        Some(format!("containers with incomplete status: {}", names(&unfinished))),
    ))
}

fn containers_started(status: &PodStatus) -> bool {
    status.container_statuses.iter().flatten().any(|s| s.container_id.is_some())
}

fn containers_ready(pod: &Pod, status: &PodStatus, phase: Phase) -> ConditionResult {
    match phase {
        Phase::Succeeded => return Err(("PodCompleted", None)),
        Phase::Failed => return Err(("PodFailed", None)),
        _ => {}
    }
    let unready = |list: Option<&Vec<ContainerStatus>>, name: &str| find(list, name).is_none_or(|s| !s.ready);
    let sidecars = spec::init_containers(pod)
        .filter(|(role, c)| {
            *role == Role::Sidecar && unready(status.init_container_statuses.as_ref(), &c.name)
        })
        .map(|(_, c)| c.name.as_str());
    let apps = spec::app_containers(pod)
        .iter()
        .filter(|c| unready(status.container_statuses.as_ref(), &c.name))
        .map(|c| c.name.as_str());
    let list: Vec<&str> = sidecars.chain(apps).collect();
    if list.is_empty() {
        return Ok(());
    }
    Err(("ContainersNotReady", Some(format!("containers with unready status: {}", names(&list)))))
}

fn gates_pass(pod: &Pod, old: &PodStatus) -> ConditionResult {
    let mut messages = Vec::new();
    for gate in spec::spec(pod).readiness_gates.iter().flatten() {
        let name = &gate.condition_type;
        match old.conditions.iter().flatten().find(|c| c.type_ == *name) {
            None => messages
                .push(format!("corresponding condition of pod readiness gate \"{name}\" does not exist.")),
            Some(c) if !c.is_true() => messages.push(format!(
                "the status of pod readiness gate \"{name}\" is not \"True\", but {}",
                c.status
            )),
            Some(_) => {}
        }
    }
    if messages.is_empty() { Ok(()) } else { Err(("ReadinessGatesNotReady", Some(messages.join(", ")))) }
}
