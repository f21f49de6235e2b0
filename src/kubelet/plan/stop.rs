//! Stops containers and whole pods: preStop, TERM, KILL; sidecars last, in reverse order (POD-7, INIT-3).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::{Action, Plan};
use crate::observed::{ContainerStop, HookState, ObservedPod, PodStop, StopCause};
use crate::probe::ProbeKind;
use crate::runtime::ContainerRecord;
use crate::spec::{self, Role};
use base::clock::saturating_after;
use object::config::Timings;

/// The interval at which an ineffective kill is repeated.
const KILL_INTERVAL: std::time::Duration = std::time::Duration::from_secs(5);

/// The next steps towards the end of the whole pod.
pub(super) fn whole_pod(
    pod: &Pod,
    observed: &ObservedPod,
    stop: &PodStop,
    now: Timestamp,
    timings: &Timings,
    plan: &mut Plan,
) {
    let mut anything_runs = false;
    // Apps and ephemeral containers stop at once; each sidecar stops once every later container has ended.
    let mut later_runs =
        spec::all_containers(pod).any(|(role, c)| !matches!(role, Role::Sidecar) && observed.runs(&c.name));
    let sidecars = spec::init_containers(pod).rev().filter(|(role, _)| *role == Role::Sidecar);
    let others = spec::all_containers(pod).filter(|(role, _)| *role != Role::Sidecar);
    let ordered =
        others.map(|(_, c)| (c, false)).chain(sidecars.map(|(_, c)| (std::borrow::Cow::Borrowed(c), true)));
    for (container, waits) in ordered {
        let Some(record) = observed.latest(&container.name).filter(|r| r.exit.is_none()) else { continue };
        anything_runs = true;
        let is_due = !waits || !later_runs || now >= stop.deadline();
        if waits {
            later_runs = true;
        }
        let attempt = observed.current(record);
        match attempt.and_then(|a| a.stop.as_ref()) {
            None => plan.push(Action::StopContainer {
                name: container.name.clone(),
                id: record.id.clone(),
                message: format!("Stopping container {}", container.name),
                grace: stop.grace,
                for_change: false,
            }),
            Some(own) => {
                let deadline = own.deadline().min(stop.deadline());
                one_container(&container, record, own, deadline, is_due, now, timings, plan);
                if !is_due {
                    plan.wake(stop.deadline());
                }
            }
        }
        // As in Kubernetes, the status shows whether a pod still serves while it terminates.
        if let Some(attempt) = attempt {
            plan.probe(record, attempt, &[ProbeKind::Readiness], now);
        }
    }
    if anything_runs {
        return;
    }
    if observed.sandbox_ready()
        || observed.sandbox.iter().flat_map(|s| &s.containers).any(|c| c.exit.is_none())
    {
        // No container of the pod's spec runs: the remains are killed with the sandbox (POD-10).
        plan.push(Action::StopSandbox);
    } else if stop.cause.removes_pod()
        || stop.cause == StopCause::Shutdown
        || (observed.shutdown && super::is_terminal(pod))
    {
        plan.push(Action::Remove);
    }
}

/// The next step towards the end of one container.
#[expect(clippy::too_many_arguments, reason = "one pure step over everything that bears on it")]
pub(super) fn one_container(
    container: &Container,
    record: &ContainerRecord,
    stop: &ContainerStop,
    deadline: Timestamp,
    is_due: bool,
    now: Timestamp,
    timings: &Timings,
    plan: &mut Plan,
) {
    let (name, id) = (container.name.clone(), record.id.clone());
    let hook = container.lifecycle.as_ref().and_then(|l| l.pre_stop.as_ref());
    if hook.is_some() && stop.terminated_at.is_none() {
        match stop.pre_stop {
            HookState::Pending if now < deadline => {
                plan.push(Action::PreStop { name, id, deadline });
                return;
            }
            HookState::Running if now < deadline => {
                plan.wake(deadline);
                return;
            }
            _ => {}
        }
    }
    let Some(terminated_at) = stop.terminated_at else {
        if is_due {
            plan.push(Action::Terminate { name, id });
        }
        return;
    };
    // Even after a late signal the process gets a moment to handle it: Kubernetes' 2 s minimum.
    let kill_at = deadline.max(saturating_after(terminated_at, timings.pre_stop_extension.0));
    let kill_at = stop.killed_at.map_or(kill_at, |killed| saturating_after(killed, KILL_INTERVAL));
    if now >= kill_at {
        plan.push(Action::Kill { name, id });
    } else {
        plan.wake(kill_at);
    }
}
