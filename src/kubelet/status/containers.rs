//! Container statuses: waiting, running or terminated, with Kubernetes' reasons and messages.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, ContainerUser, ImageVolumeStatus, LinuxContainerUser, Pod, PodStatus,
    ResourceRequirements, VolumeMountStatus, VolumeStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::StatusStage;
use crate::observed::{HookState, ImageState, ObservedPod, SetupState, StopCause};
use crate::plan::{RestartState, image_pull, restart_state};
use crate::runtime::{ContainerId, ContainerRecord, ProcessUser};
use crate::spec::{self, Role};
use object::config::Timings;
use object::time::go_duration;

/// The id as the API shows it.
pub(crate) fn container_id(id: &ContainerId) -> String {
    format!("{ID_SCHEME}{}", id.0)
}

/// The prefix of every id.
const ID_SCHEME: &str = "podium://";

/// The user of a container's first process.
fn user(user: &ProcessUser) -> ContainerUser {
    let groups = user.groups.iter().copied().map(i64::from).collect();
    let linux =
        LinuxContainerUser { uid: user.uid.into(), gid: user.gid.into(), supplemental_groups: Some(groups) };
    ContainerUser { linux: Some(linux) }
}

/// The container statuses of all roles; everything else is left empty.
pub(super) fn statuses(
    pod: &Pod,
    observed: &ObservedPod,
    now: Timestamp,
    timings: &Timings,
    moment: StatusStage,
) -> PodStatus {
    let view = View { pod, observed, now, timings, moment };
    let mut init = Vec::new();
    let mut earlier_done = true;
    for (role, container) in spec::init_containers(pod) {
        let status = view.status(role, container, !earlier_done || view.any_init());
        earlier_done &= init_done(role, &status);
        init.push(status);
    }
    let apps = spec::app_containers(pod).iter().map(|c| view.status(Role::App, c, !earlier_done)).collect();
    let ephemeral: Vec<_> = spec::ephemeral_containers(pod)
        .iter()
        .map(|e| view.status(Role::Ephemeral, &object::pod::as_container(e), false))
        .collect();
    PodStatus {
        init_container_statuses: (!init.is_empty()).then_some(init),
        container_statuses: Some(apps),
        ephemeral_container_statuses: (!ephemeral.is_empty()).then_some(ephemeral),
        ..PodStatus::default()
    }
}

/// Returns true if an init container is complete: it exited 0, or, as a sidecar, has started.
pub(super) fn init_done(role: Role, status: &ContainerStatus) -> bool {
    match role {
        Role::Sidecar => status.started == Some(true),
        _ => status.ready,
    }
}

struct View<'a> {
    pod: &'a Pod,
    observed: &'a ObservedPod,
    now: Timestamp,
    timings: &'a Timings,
    moment: StatusStage,
}

impl View<'_> {
    fn any_init(&self) -> bool {
        spec::init_containers(self.pod).next().is_some()
    }

    fn status(&self, role: Role, container: &Container, initializing: bool) -> ContainerStatus {
        let name = &container.name;
        let before = self.before(role, name);
        let record = self.observed.latest(name);
        let image = container.image.clone().unwrap_or_default();
        let Some(record) = record else {
            return self.never_run(role, container, before, initializing);
        };
        let memory = self.observed.memory(name);
        let hook_runs = self
            .observed
            .current(record)
            .is_some_and(|a| matches!(a.post_start, HookState::Running | HookState::Pending));
        let last = self.observed.previous(name).and_then(|r| self.terminated(container, r));
        // The termination of attempts older than the runtime's records stays as the status had it.
        let last = last.or_else(|| before.and_then(|b| last_termination(b, record)));
        let (state, last) = match (&record.exit, self.restart_state(role, container)) {
            (None, _) if hook_runs => (self.waiting(container, initializing && role == Role::App), last),
            (None, _) => (
                ContainerState {
                    running: Some(ContainerStateRunning { started_at: Some(self.times(record).0) }),
                    ..ContainerState::default()
                },
                last,
            ),
            (
                Some(_),
                RestartState::BackOff { .. }
                | RestartState::ErrorWait { .. }
                | RestartState::Pulling { .. }
                | RestartState::ImageBackOff { .. },
            ) if self.moment == StatusStage::Current && self.observed.stop.is_none() => {
                (self.waiting(container, false), self.terminated(container, record).or(last))
            }
            (Some(_), _) => (
                ContainerState {
                    terminated: self.terminated(container, record),
                    ..ContainerState::default()
                },
                last,
            ),
        };
        let started = self.observed.started(record);
        let ready = match role {
            Role::Init => {
                record.exit.as_ref().is_some_and(|e| e.exit_code == 0) && self.counts_in_this_sandbox(name)
            }
            Role::Ephemeral => false,
            Role::App | Role::Sidecar => self.observed.ready(record),
        };
        let shown_image = if record.exit.is_none() { record.image.clone() } else { image };
        let image_id = match &memory.image {
            _ if record.exit.is_none() => record.image_id.clone(),
            ImageState::Present(image) | ImageState::Pulled { image, .. } => image.image_id.clone(),
            ImageState::Failed { .. } | ImageState::Pulling { .. } => String::new(),
            ImageState::Unknown => record.image_id.clone(),
        };
        ContainerStatus {
            name: name.clone(),
            image: shown_image,
            image_id,
            container_id: Some(container_id(&record.id)),
            restart_count: i32::try_from(record.attempt).unwrap_or(i32::MAX),
            ready,
            started: Some(started),
            state: Some(state),
            // Empty if there is none, as in Kubernetes.
            last_state: Some(ContainerState { terminated: last, ..ContainerState::default() }),
            resources: self.actuated(role, container, record),
            allocated_resources: self.resources_of(role, container).and_then(|r| r.requests.clone()),
            volume_mounts: self.mounts(container, before),
            user: record.user.as_ref().map(user),
            stop_signal: container.lifecycle.as_ref().and_then(|l| l.stop_signal.clone()),
            ..ContainerStatus::default()
        }
    }

    /// The resources that the node has allocated to the container; only apps and sidecars are ever resized.
    fn resources_of<'a>(&'a self, role: Role, container: &'a Container) -> Option<&'a ResourceRequirements> {
        match role {
            Role::App | Role::Sidecar => self.observed.resize.of(container),
            Role::Init | Role::Ephemeral => container.resources.as_ref(),
        }
    }

    /// The resources in effect: while the container runs, those of its start or its last resize.
    fn actuated(
        &self,
        role: Role,
        container: &Container,
        record: &ContainerRecord,
    ) -> Option<ResourceRequirements> {
        let attempt = self.observed.current(record).filter(|_| record.exit.is_none());
        match attempt {
            Some(attempt) if matches!(role, Role::App | Role::Sidecar) => attempt.resources.clone(),
            _ => self.resources_of(role, container).cloned(),
        }
    }

    /// An init container's success counts in the sandbox it ran in, and permanently in a pod that has ended.
    fn counts_in_this_sandbox(&self, name: &str) -> bool {
        self.observed.stop.is_some() || self.observed.latest_in_sandbox(name).is_some()
    }

    fn never_run(
        &self,
        role: Role,
        container: &Container,
        before: Option<&ContainerStatus>,
        initializing: bool,
    ) -> ContainerStatus {
        if let Some(before) = before.filter(|b| b.container_id.is_some()) {
            return self.lost_status(container, before);
        }
        ContainerStatus {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            state: Some(self.waiting(container, initializing)),
            last_state: Some(ContainerState::default()),
            started: (role != Role::Ephemeral).then_some(false),
            ready: false,
            restart_count: before.map_or(0, |b| b.restart_count),
            ..ContainerStatus::default()
        }
    }

    /// Returns the status of a container that has run according to the status, and that the runtime no longer knows.
    fn lost_status(&self, container: &Container, before: &ContainerStatus) -> ContainerStatus {
        let mut status = before.clone();
        (status.ready, status.started) = (false, Some(false));
        let ran = before.state.as_ref().is_some_and(|s| s.running.is_some());
        let ended = before.state.as_ref().and_then(|s| s.terminated.clone());
        let unknown = ran.then(|| ContainerStateTerminated {
            exit_code: 137,
            reason: Some("ContainerStatusUnknown".into()),
            message: Some(
                "The container could not be located when the pod was deleted.  The container used to be Running"
                    .into(),
            ),
            ..ContainerStateTerminated::default()
        });
        if let Some(terminated) = unknown.or(ended) {
            let state = Some(ContainerState { terminated: Some(terminated), ..ContainerState::default() });
            if self.moment == StatusStage::Final || self.observed.stop.is_some() {
                status.state = state;
            } else {
                status.last_state = state;
                status.state = Some(self.waiting(container, false));
            }
        }
        status
    }

    fn before(&self, role: Role, name: &str) -> Option<&ContainerStatus> {
        let status = self.pod.status.as_ref()?;
        let list = match role {
            Role::Init | Role::Sidecar => &status.init_container_statuses,
            Role::App => &status.container_statuses,
            Role::Ephemeral => &status.ephemeral_container_statuses,
        };
        list.iter().flatten().find(|s| s.name == name)
    }

    fn restart_state(&self, role: Role, container: &Container) -> RestartState {
        restart_state(self.pod, role, container, self.observed, self.now, self.timings)
    }

    fn waiting(&self, container: &Container, initializing: bool) -> ContainerState {
        let (reason, message) = self.waiting_reason(container, initializing);
        ContainerState {
            waiting: Some(ContainerStateWaiting { reason: Some(reason), message }),
            ..ContainerState::default()
        }
    }

    fn waiting_reason(&self, container: &Container, initializing: bool) -> (String, Option<String>) {
        let name = &container.name;
        let memory = self.observed.memory(name);
        let role = spec::container(self.pod, name).map_or(Role::App, |(role, _)| role);
        let awaited = || image_pull::awaited(self.pod, container, self.observed, self.now);
        match self.restart_state(role, container) {
            RestartState::BackOff { delay, .. } => (
                "CrashLoopBackOff".into(),
                Some(format!(
                    "back-off {} restarting failed container={name} pod={}",
                    go_duration(delay),
                    spec::pod_label(self.pod)
                )),
            ),
            RestartState::Pulling { .. } => {
                let reason = if initializing { "PodInitializing" } else { "ContainerCreating" };
                let image = awaited();
                let progress = image.as_ref().and_then(|image| self.observed.image(&image.user).progress());
                (reason.into(), progress.map(str::to_owned))
            }
            RestartState::ImageBackOff { reported_from: shown_from, .. } => {
                let Some(image) = awaited() else { return ("ErrImagePull".into(), None) };
                let ImageState::Failed { reason, message, .. } = self.observed.image(&image.user) else {
                    return ("ErrImagePull".into(), None);
                };
                if *reason != "ErrImagePull" || self.now < shown_from {
                    return ((*reason).into(), Some(message.clone()));
                }
                let image = image.reference;
                (
                    "ImagePullBackOff".into(),
                    Some(format!("Back-off pulling image \"{image}\": ErrImagePull: {message}")),
                )
            }
            RestartState::ErrorWait { .. } => memory.error.as_ref().map_or_else(
                || ("ContainerCreating".into(), None),
                |error| (error.reason.into(), Some(error.message.clone())),
            ),
            _ if initializing => ("PodInitializing".into(), None),
            _ => ("ContainerCreating".into(), None),
        }
    }

    /// The container's mounts.
    fn mounts(
        &self,
        container: &Container,
        before: Option<&ContainerStatus>,
    ) -> Option<Vec<VolumeMountStatus>> {
        let mounts = container.volume_mounts.as_ref().filter(|mounts| !mounts.is_empty())?;
        let shown = mounts.iter().map(|mount| VolumeMountStatus {
            mount_path: mount.mount_path.clone(),
            name: mount.name.clone(),
            read_only: mount.read_only.filter(|read_only| *read_only),
            recursive_read_only: (mount.read_only == Some(true)).then(|| {
                match mount.recursive_read_only.as_deref() {
                    Some("Enabled") => "Enabled".into(),
                    Some("IfPossible") if self.observed.own_mounts => "Enabled".into(),
                    _ => "Disabled".into(),
                }
            }),
            volume_status: self.image_volume_status(&mount.name, before),
        });
        Some(shown.collect())
    }

    /// The image that an image volume shows. A kubelet that has restarted knows it from the status.
    fn image_volume_status(&self, volume: &str, before: Option<&ContainerStatus>) -> Option<VolumeStatus> {
        if let Some(image) = self.observed.volume_images.get(volume).and_then(ImageState::present) {
            let image = ImageVolumeStatus { image_ref: image.image_id.clone() };
            return Some(VolumeStatus { image: Some(image) });
        }
        let mut written = before?.volume_mounts.iter().flatten();
        written.find(|mount| mount.name == volume)?.volume_status.clone()
    }

    /// The termination of an attempt; none while it runs.
    fn terminated(
        &self,
        container: &Container,
        record: &ContainerRecord,
    ) -> Option<ContainerStateTerminated> {
        let exit = record.exit.as_ref()?;
        let memory = self.observed.memory(&record.name);
        let unrecorded = memory.unrecorded.as_ref().filter(|u| u.record.id == record.id);
        let reason = match (unrecorded, exit) {
            (Some(unrecorded), _) => unrecorded.reason.as_str(),
            (None, exit) if exit.oom_killed => "OOMKilled",
            (None, exit) if exit.exit_code == 0 => "Completed",
            (None, _) => "Error",
        };
        let from_log = memory
            .log_message
            .as_ref()
            .filter(|(id, _)| *id == record.id)
            .filter(|_| container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError"))
            .map(|(_, text)| text.clone());
        let (started_at, finished_at) = self.times(record);
        Some(ContainerStateTerminated {
            container_id: Some(container_id(&record.id)),
            exit_code: exit.exit_code,
            finished_at,
            message: exit.message.clone().filter(|m| !m.is_empty()).or(from_log),
            reason: Some(reason.into()),
            // Kubernetes' runtimes fold the signal into the exit code (128 + n).
            signal: None,
            started_at: Some(started_at),
        })
    }

    /// Returns the start and end of an attempt by the node's clock. A time that was written once stays, even if that
    /// clock is changed.
    fn times(&self, record: &ContainerRecord) -> (Time, Option<Time>) {
        let (began, ended) = self.written(record);
        let began = began.unwrap_or_else(|| self.observed.display_time(record.started_at));
        let exit = record.exit.as_ref();
        (began, exit.map(|exit| ended.unwrap_or_else(|| self.observed.display_time(exit.finished_at))))
    }

    /// The start and end of an attempt in the current status.
    fn written(&self, record: &ContainerRecord) -> (Option<Time>, Option<Time>) {
        let is_it =
            |id: Option<&str>| id.and_then(|id| id.strip_prefix(ID_SCHEME)) == Some(record.id.0.as_str());
        let role = spec::container(self.pod, &record.name).map_or(Role::App, |(role, _)| role);
        let Some(before) = self.before(role, &record.name) else { return (None, None) };
        let states = [&before.state, &before.last_state].into_iter().flatten();
        let mut ended = states.filter_map(|state| state.terminated.as_ref());
        if let Some(ended) = ended.find(|ended| is_it(ended.container_id.as_deref())) {
            return (ended.started_at.clone(), ended.finished_at.clone());
        }
        let running = before.state.as_ref().and_then(|state| state.running.as_ref());
        let running = running.filter(|_| is_it(before.container_id.as_deref()));
        (running.and_then(|running| running.started_at.clone()), None)
    }
}

/// The total size of the messages of a pod's containers, in bytes.
const MESSAGES_BYTES: usize = 12 * 1024;

/// Cuts the termination messages to the limit of each container of the pod (POD-9).
pub(super) fn shorten_messages(status: &mut PodStatus) {
    let lists = [
        &mut status.init_container_statuses, &mut status.container_statuses,
        &mut status.ephemeral_container_statuses,
    ];
    let mut all: Vec<&mut ContainerStatus> =
        lists.into_iter().flat_map(|list| list.iter_mut().flatten()).collect();
    let each = MESSAGES_BYTES / all.len().max(1);
    let states = all.iter_mut().flat_map(|s| [s.state.as_mut(), s.last_state.as_mut()]).flatten();
    for message in states.filter_map(|s| s.terminated.as_mut()?.message.as_mut()) {
        message.truncate(message.floor_char_boundary(each));
    }
}

/// Completes the statuses of a pod that has ended. A container that waits and never started is reported as lost. If the
/// node rejected the pod, its containers have no statuses.
pub(super) fn finish_statuses(pod: &Pod, observed: &ObservedPod, status: &mut PodStatus) {
    let failed = matches!(observed.stop.as_ref().map(|s| &s.cause), Some(StopCause::Failed { .. }));
    if failed && observed.sandbox.is_none() && observed.setup == SetupState::No {
        (status.init_container_statuses, status.container_statuses) = (None, None);
        return;
    }
    let lists = [&status.init_container_statuses, &status.container_statuses];
    let has_started = lists.into_iter().flatten().flatten().any(|s| s.container_id.is_some());
    let init_done = spec::init_containers(pod).all(|(role, c)| {
        let found = status.init_container_statuses.iter().flatten().find(|s| s.name == c.name);
        // A sidecar ends after the others; any other container that ended with an error prevented them from starting.
        let ended = found.and_then(|s| s.state.as_ref()?.terminated.as_ref());
        let ended_well = ended.is_some_and(|ended| role == Role::Sidecar || ended.exit_code == 0);
        found.is_some_and(|s| init_done(role, s)) || ended_well
    });
    if !has_started || !init_done {
        return;
    }
    for container in status.container_statuses.iter_mut().flatten() {
        let waits = container.state.as_ref().is_some_and(|s| s.waiting.is_some());
        if waits && container.container_id.is_none() {
            container.state = Some(ContainerState {
                terminated: Some(ContainerStateTerminated {
                    exit_code: 137,
                    reason: Some("ContainerStatusUnknown".into()),
                    message: Some("The container could not be located when the pod was terminated".into()),
                    ..ContainerStateTerminated::default()
                }),
                ..ContainerState::default()
            });
        }
    }
}

/// The last state in the previous status, if it belongs to another attempt than the current one.
fn last_termination(before: &ContainerStatus, record: &ContainerRecord) -> Option<ContainerStateTerminated> {
    let id = container_id(&record.id);
    if before.container_id.as_ref() == Some(&id) {
        return before.last_state.as_ref().and_then(|s| s.terminated.clone());
    }
    if record.attempt == 0 {
        return None;
    }
    let state = before.state.as_ref();
    state
        .and_then(|s| s.terminated.clone())
        .or_else(|| before.last_state.as_ref().and_then(|s| s.terminated.clone()))
        .filter(|t| t.container_id.as_ref() != Some(&id))
}
