//! The phase of a pod from its container statuses, by the rules of Kubernetes' `getPhase`.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};

use crate::spec::{self, Role};
pub(crate) use object::pod::Phase;

enum ContainerPhase {
    Running,
    Waiting,
    Succeeded,
    /// It failed with this exit code.
    Failed(i32),
    Unknown,
}

fn container_phase(status: Option<&ContainerStatus>) -> ContainerPhase {
    let Some(status) = status else { return ContainerPhase::Unknown };
    let terminated = |state: Option<&k8s_openapi::api::core::v1::ContainerState>| {
        state.and_then(|s| s.terminated.as_ref()).map(|t| t.exit_code)
    };
    let state = status.state.as_ref();
    if state.is_some_and(|s| s.running.is_some()) {
        return ContainerPhase::Running;
    }
    match terminated(state).or_else(|| terminated(status.last_state.as_ref())) {
        Some(0) => ContainerPhase::Succeeded,
        Some(code) => ContainerPhase::Failed(code),
        None => ContainerPhase::Waiting,
    }
}

/// The phase; `ending` if the pod is stopped for good and none of its containers will start again.
pub(super) fn of(pod: &Pod, status: &PodStatus, ending: bool) -> Phase {
    let find = |list: &Option<Vec<ContainerStatus>>, name: &str| {
        container_phase(list.iter().flatten().find(|s| s.name == name))
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
            (Role::Sidecar, ContainerPhase::Waiting | ContainerPhase::Unknown) => initializing = true,
            (Role::Sidecar, ContainerPhase::Running) => initializing |= !started,
            (Role::Sidecar, _) | (_, ContainerPhase::Succeeded) => {}
            (_, ContainerPhase::Failed(code))
                if ending || !spec::restarts_after(pod, role, container, code) =>
            {
                return Phase::Failed;
            }
            _ => initializing = true,
        }
    }
    let (mut running, mut waiting, mut succeeded, mut failed) = (0, 0, 0, 0);
    // A container may have a policy or rules of its own.
    let mut restarts = false;
    let restarts_after = |container, code| spec::restarts_after(pod, Role::App, container, code);
    for container in spec::app_containers(pod) {
        match find(&status.container_statuses, &container.name) {
            ContainerPhase::Running => running += 1,
            ContainerPhase::Waiting | ContainerPhase::Unknown => waiting += 1,
            ContainerPhase::Succeeded => {
                succeeded += 1;
                restarts |= restarts_after(container, 0);
            }
            ContainerPhase::Failed(code) => {
                failed += 1;
                restarts |= restarts_after(container, code);
            }
        }
    }
    if ending && running == 0 && waiting == 0 {
        return if failed == 0 { Phase::Succeeded } else { Phase::Failed };
    }
    if ending && running == 0 {
        return Phase::Failed;
    }
    // A sidecar that restarts does not return a pod with started apps to Pending.
    let has_started = running + succeeded + failed > 0;
    if waiting > 0 || (initializing && !has_started) {
        return Phase::Pending;
    }
    if running > 0 {
        return Phase::Running;
    }
    match (restarts, failed) {
        (true, _) => Phase::Running,
        (false, 0) => Phase::Succeeded,
        (false, _) => Phase::Failed,
    }
}
