//! Rebuilds a starting kubelet's memory of pods that ran before it (SAFE-7), purely from the runtime's records and the
//! pod's status.
//!
//! A running container keeps its start, its readiness and its restart count. A container that the status lists and the
//! runtime does not know counts as ended, so that a finished step is not repeated.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};

use super::observed::{AttemptMemory, FailedAttempt, HookState, ObservedPod};
use super::probe::ProbeSet;
use super::runtime::{ContainerExit, ContainerId, ContainerRecord};
use super::spec::{self, RestartPolicy, Role};
use super::status::container_id;
use base::clock::ClockReading;

/// Fills the memory of the pod's containers from the runtime's records and the pod's status, at `now` on the machine's
/// clock.
pub(super) fn adopt(pod: &Pod, observed: &mut ObservedPod, now: ClockReading) {
    observed.resize.adopt(pod);
    let containers: Vec<(Role, Container)> =
        spec::all_containers(pod).map(|(role, c)| (role, c.into_owned())).collect();
    for (role, container) in containers {
        let status = spec::container_status(pod, &container.name);
        match observed.latest(&container.name).cloned() {
            Some(record) if record.exit.is_none() => {
                adopt_running(&container, status, &record, observed, now);
            }
            Some(_) => {}
            None => {
                if let Some(lost) = status.and_then(|s| lost_attempt(pod, role, s, observed, now.wall)) {
                    observed.memory_mut(&container.name).unrecorded = Some(lost);
                }
            }
        }
    }
}

/// Remembers a container that runs and was not started by this kubelet.
pub(super) fn adopt_running(
    container: &Container,
    status: Option<&ContainerStatus>,
    record: &ContainerRecord,
    observed: &mut ObservedPod,
    now: ClockReading,
) {
    if observed.current(record).is_some() {
        return;
    }
    let same = status.filter(|s| s.container_id.as_deref() == Some(&container_id(&record.id)));
    let started = same.is_some_and(|s| s.started == Some(true));
    let ready = same.is_some_and(|s| s.ready);
    let probes = ProbeSet::adopted(container, now.steady_of(record.started_at), started, ready, now.steady);
    observed.memory_mut(&record.name).current = Some(AttemptMemory {
        id: record.id.clone(),
        post_start: HookState::Done,
        probes,
        stop: None,
        resources: same.and_then(|s| s.resources.clone()).or_else(|| container.resources.clone()),
    });
}

/// Returns the attempt that only the status lists; `None` if the status has no attempt that ran.
fn lost_attempt(
    pod: &Pod,
    role: Role,
    status: &ContainerStatus,
    observed: &ObservedPod,
    now: Timestamp,
) -> Option<FailedAttempt> {
    let id = status.container_id.as_deref()?.strip_prefix("podium://")?;
    let state = status.state.as_ref();
    let record = |exit: ContainerExit, started_at: Timestamp| ContainerRecord {
        id: ContainerId(id.to_string()),
        name: status.name.clone(),
        attempt: u32::try_from(status.restart_count).unwrap_or(0),
        image: status.image.clone(),
        image_id: status.image_id.clone(),
        pid: None,
        user: None,
        started_at,
        exit: Some(exit),
    };
    if let Some(ended) = state.and_then(|s| s.terminated.as_ref()) {
        let finished_at = ended.finished_at.as_ref().map_or(now, |t| observed.recorded(t.0));
        let exit = ContainerExit {
            exit_code: ended.exit_code,
            signal: ended.signal,
            oom_killed: false,
            finished_at,
            message: ended.message.clone(),
        };
        let started_at = ended.started_at.as_ref().map_or(finished_at, |t| observed.recorded(t.0));
        let reason = ended.reason.clone().unwrap_or_else(|| "Error".into());
        return Some(FailedAttempt { record: record(exit, started_at), reason });
    }
    let running = state.and_then(|s| s.running.as_ref())?;
    let again = match role {
        Role::Sidecar | Role::Init => true,
        Role::App => spec::restart_policy(pod) != RestartPolicy::Never,
        Role::Ephemeral => false,
    };
    let message = if again {
        "The container could not be located when the pod was restarted.  The container used to be Running"
    } else {
        "The container could not be located when the pod was terminated"
    };
    let exit = ContainerExit {
        exit_code: 137,
        signal: None,
        oom_killed: false,
        finished_at: now,
        message: Some(message.into()),
    };
    let started_at = running.started_at.as_ref().map_or(now, |t| observed.recorded(t.0));
    Some(FailedAttempt { record: record(exit, started_at), reason: "ContainerStatusUnknown".into() })
}
