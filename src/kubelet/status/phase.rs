//! The phase of a pod from its container statuses, by the rules of Kubernetes' `getPhase`.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};

use crate::spec::{self, RestartPolicy, Role};
pub(crate) use object::pod::Phase;

enum Seen {
    Running,
    Waiting,
    Succeeded,
    Failed,
    Unknown,
}

fn seen(status: Option<&ContainerStatus>) -> Seen {
    let Some(status) = status else { return Seen::Unknown };
    let terminated = |state: Option<&k8s_openapi::api::core::v1::ContainerState>| {
        state.and_then(|s| s.terminated.as_ref()).map(|t| t.exit_code)
    };
    let state = status.state.as_ref();
    if state.is_some_and(|s| s.running.is_some()) {
        return Seen::Running;
    }
    match terminated(state).or_else(|| terminated(status.last_state.as_ref())) {
        Some(0) => Seen::Succeeded,
        Some(_) => Seen::Failed,
        None => Seen::Waiting,
    }
}

/// The phase; `ending` when the pod is stopped for good and nothing of it will be started again.
pub(super) fn of(pod: &Pod, status: &PodStatus, ending: bool) -> Phase {
    let policy = spec::restart_policy(pod);
    let find = |list: &Option<Vec<ContainerStatus>>, name: &str| {
        seen(list.iter().flatten().find(|s| s.name == name))
    };
    let mut initializing = false;
    for (role, container) in spec::init_containers(pod) {
        let its = find(&status.init_container_statuses, &container.name);
        let started = status
            .init_container_statuses
            .iter()
            .flatten()
            .any(|s| s.name == container.name && s.started == Some(true));
        match (role, its) {
            (Role::Sidecar, Seen::Waiting | Seen::Unknown) => initializing = true,
            (Role::Sidecar, Seen::Running) => initializing |= !started,
            (Role::Sidecar, _) | (_, Seen::Succeeded) => {}
            (_, Seen::Failed) if policy == RestartPolicy::Never || ending => return Phase::Failed,
            _ => initializing = true,
        }
    }
    let (mut running, mut waiting, mut succeeded, mut failed) = (0, 0, 0, 0);
    for container in spec::app_containers(pod) {
        match find(&status.container_statuses, &container.name) {
            Seen::Running => running += 1,
            Seen::Waiting | Seen::Unknown => waiting += 1,
            Seen::Succeeded => succeeded += 1,
            Seen::Failed => failed += 1,
        }
    }
    if ending && running == 0 && waiting == 0 {
        return if failed == 0 { Phase::Succeeded } else { Phase::Failed };
    }
    if ending && running == 0 {
        return Phase::Failed;
    }
    // A sidecar that comes and goes does not hold back a pod whose apps have begun.
    let begun = running + succeeded + failed > 0;
    if waiting > 0 || (initializing && !begun) {
        return Phase::Pending;
    }
    if running > 0 {
        return Phase::Running;
    }
    match policy {
        RestartPolicy::Always => Phase::Running,
        _ if failed == 0 => Phase::Succeeded,
        RestartPolicy::Never => Phase::Failed,
        RestartPolicy::OnFailure => Phase::Running,
    }
}
