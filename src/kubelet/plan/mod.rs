//! Plans the next actions for a pod: a pure function of its object, its observed state, and the time.
//!
//! The worker executes the actions, observes again and plans again, until nothing is left to do but wait. It is
//! Kubernetes' `computePodActions` together with its kill path.
//!
//! Architecture Invariant: nothing here does I/O, reads a clock or changes the observed state.

pub(crate) mod image_pull;
mod restart;
mod stop;
#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod};

use super::needed_images::{ImageUser, NeededImage};
use super::observed::{
    AttemptMemory, HookState, ImageState, ObservedPod, RestartBackOff, SetupState, StopCause,
};
use super::probe::ProbeKind;
use super::resize;
use super::restart_all::RestartAll;
use super::runtime::{ContainerId, ContainerRecord};
use super::spec::{self, Role};
use object::config::Timings;
pub(super) use object::pod::is_terminal;
pub(crate) use restart::{RestartState, restart_state};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Allocate the pod's address and fill its volumes.
    Prepare,
    /// Create the sandbox.
    RunSandbox,
    /// Kill the remains of the pod and release its sandbox.
    StopSandbox,
    /// Start a container.
    Start {
        name: String,
        /// The number of earlier attempts.
        attempt: u32,
        /// The back-off of the restart after this one.
        back_off: Option<RestartBackOff>,
    },
    /// Begin to stop a running container.
    StopContainer {
        name: String,
        /// The attempt.
        id: ContainerId,
        /// The text of the `Killing` event.
        message: String,
        /// The grace period.
        grace: Duration,
        /// It ends only to get its new resources or image, and is started again at once.
        for_change: bool,
    },
    /// Apply the allocated resources to a running container.
    Resize {
        name: String,
        /// The attempt.
        id: ContainerId,
    },
    /// Run a container's preStop hook, until `deadline` at most.
    PreStop {
        name: String,
        /// The attempt.
        id: ContainerId,
        /// The end of the grace period.
        deadline: Timestamp,
    },
    /// Send the stop signal to a container's main process.
    Terminate {
        name: String,
        /// The attempt.
        id: ContainerId,
    },
    /// Kill every process of a container.
    Kill {
        name: String,
        /// The attempt.
        id: ContainerId,
    },
    /// Run a probe.
    Probe {
        /// The container's name.
        name: String,
        /// The attempt.
        id: ContainerId,
        /// The probe to run.
        kind: ProbeKind,
    },
    /// Record once that a restart or a pull backs off.
    RecordBackOff {
        /// The container's name.
        name: String,
        /// The end of the wait; identifies the wait that was recorded.
        until: Timestamp,
        /// The event's text.
        message: String,
        /// The user of the image whose pull backs off; `None` if the container's restart does.
        image: Option<ImageUser>,
    },
    /// Forget an attempt that is older than the last two.
    Forget {
        /// The attempt.
        id: ContainerId,
    },
    /// The whole pod ends.
    StopPod {
        cause: StopCause,
        /// The grace period.
        grace: Duration,
    },
    /// Every process has exited: release all resources of the pod, and remove its object if required.
    Remove,
}

/// The actions to execute now, and the time at which to plan again if nothing happens before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The actions in the order of execution.
    pub(crate) actions: Vec<Action>,
    /// The time of the next plan.
    pub(crate) next_wake: Option<Timestamp>,
}

impl Plan {
    fn push(&mut self, action: Action) {
        self.actions.push(action);
    }

    fn wake(&mut self, at: Timestamp) {
        self.next_wake = Some(self.next_wake.map_or(at, |known| known.min(at)));
    }

    /// Adds the due probes of a running attempt, among those of these kinds, and the time of the next one.
    fn probe(
        &mut self,
        record: &ContainerRecord,
        attempt: &AttemptMemory,
        kinds: &[ProbeKind],
        now: Timestamp,
    ) {
        if attempt.post_start != HookState::Done {
            return;
        }
        let (due, next) = attempt.probes.due(now);
        for kind in due.into_iter().filter(|kind| kinds.contains(kind)) {
            self.push(Action::Probe { name: record.name.clone(), id: record.id.clone(), kind });
        }
        if let Some(next) = next {
            self.wake(next);
        }
    }
}

/// Plans the actions for the pod at `now`, on the steady clock.
pub(crate) fn plan(pod: &Pod, observed: &ObservedPod, now: Timestamp, timings: &Timings) -> Plan {
    let mut plan = Plan::default();
    if let Some(stop) = whole_stop(pod, observed, now, &mut plan) {
        plan.push(stop);
        return plan;
    }
    if let Some(stop) = &observed.stop {
        stop::whole_pod(pod, observed, stop, now, timings, &mut plan);
        return plan;
    }
    if is_terminal(pod) {
        // The pod had finished before the kubelet started: its remains are released.
        plan.push(Action::StopPod { cause: StopCause::Completed, grace: Duration::ZERO });
        return plan;
    }
    if let Some(sandbox) = &observed.sandbox
        && !sandbox.ready
        && sandbox.containers.iter().any(|c| c.exit.is_none())
    {
        // The remains of a lost sandbox are removed before any decision about its containers.
        plan.push(Action::StopSandbox);
        return plan;
    }
    let work = PlanInput { pod, observed, now, timings, restart: RestartAll::of(pod, observed) };
    if work.stop_for_restart(&mut plan) {
        return plan;
    }
    let starts = work.starts(&mut plan);
    match starts {
        StartPlan::Finished => {
            let grace = spec::grace(pod);
            plan.actions = vec![Action::StopPod { cause: StopCause::Completed, grace }];
        }
        StartPlan::These(starts) => {
            if starts.is_empty() || work.is_prepared(&mut plan) {
                plan.actions.extend(starts);
            }
            work.watch_over(&mut plan);
        }
    }
    plan
}

/// Decides whether the whole pod must start to end, or end sooner or for another cause than it does already.
fn whole_stop(pod: &Pod, observed: &ObservedPod, now: Timestamp, plan: &mut Plan) -> Option<Action> {
    let cause = observed.stop.as_ref().map(|s| &s.cause);
    if pod.metadata.deletion_timestamp.is_some() {
        let requested = spec::seconds(pod.metadata.deletion_grace_period_seconds, 30);
        return match &observed.stop {
            // The grace period may be shortened while it runs, but never extended (POD-7).
            Some(stop) if stop.cause.removes_pod() && requested >= stop.grace => None,
            // A pod that already ends for another reason keeps its deadline.
            Some(stop) if !stop.cause.removes_pod() && !matches!(stop.cause, StopCause::Completed) => {
                Some(Action::StopPod { cause: StopCause::Deleted, grace: requested.min(stop.grace) })
            }
            Some(stop) if stop.cause == StopCause::Orphaned => None,
            _ => Some(Action::StopPod { cause: StopCause::Deleted, grace: requested }),
        };
    }
    if cause.is_some() || is_terminal(pod) {
        return None;
    }
    let active = spec::spec(pod).active_deadline_seconds?;
    let started = observed.active_since.or_else(|| Some(pod.status.as_ref()?.start_time.as_ref()?.0))?;
    let deadline = started.checked_add(SignedDuration::from_secs(active)).unwrap_or(Timestamp::MAX);
    if now >= deadline {
        let cause = StopCause::Failed {
            reason: "DeadlineExceeded".into(),
            message: "Pod was active on the node longer than the specified deadline".into(),
            disrupted: false,
        };
        return Some(Action::StopPod { cause, grace: spec::grace(pod) });
    }
    plan.wake(deadline);
    None
}

enum StartPlan {
    /// No container will ever start again.
    Finished,
    /// Containers to start now, once the pod is prepared.
    These(Vec<Action>),
}

struct PlanInput<'a> {
    pod: &'a Pod,
    observed: &'a ObservedPod,
    now: Timestamp,
    timings: &'a Timings,
    /// The newest restart of all containers.
    restart: Option<RestartAll<'a>>,
}

impl PlanInput<'_> {
    /// Ends the containers that a restart of all containers has to replace, without grace period, hooks or order;
    /// returns true if some of them still run.
    fn stop_for_restart(&self, plan: &mut Plan) -> bool {
        let Some(restart) = &self.restart else { return false };
        let left = restart.remaining(self.pod, self.observed);
        // Containers without a remembered attempt cannot be stopped on their own.
        let running: Vec<_> = left
            .into_iter()
            .filter(|record| record.exit.is_none())
            .filter_map(|record| Some((record, self.observed.current(record)?)))
            .collect();
        if running.is_empty() {
            return false;
        }
        let trigger = &restart.trigger.name;
        for (record, _) in running.iter().filter(|(_, attempt)| attempt.stop.is_none()) {
            plan.push(Action::StopContainer {
                name: record.name.clone(),
                id: record.id.clone(),
                message: format!(
                    "Container {} is restarted with all others: {trigger} has exited",
                    record.name
                ),
                grace: Duration::ZERO,
                for_change: false,
            });
        }
        if plan.actions.is_empty() {
            self.watch_over(plan);
        }
        true
    }

    /// The newest attempt in the sandbox that lives now, unless a restart of all containers replaces it.
    fn latest<'w>(&'w self, name: &'w str) -> Option<&'w ContainerRecord> {
        self.observed.latest_in_sandbox(name).filter(|record| !self.is_replaced(record))
    }

    fn is_replaced(&self, record: &ContainerRecord) -> bool {
        self.restart.as_ref().is_some_and(|restart| restart.replaces(record))
    }

    /// Checks the preconditions of a container's start; returns false while one is missing.
    fn is_prepared(&self, plan: &mut Plan) -> bool {
        match &self.observed.setup {
            SetupState::Ready => {}
            SetupState::Blocked { until, .. } if *until > self.now => {
                plan.wake(*until);
                return false;
            }
            SetupState::No | SetupState::Blocked { .. } => {
                plan.push(Action::Prepare);
                return false;
            }
        }
        if self.observed.sandbox_ready() {
            return true;
        }
        plan.push(Action::RunSandbox);
        false
    }

    fn starts(&self, plan: &mut Plan) -> StartPlan {
        let mut starts = Vec::new();
        let apps = spec::app_containers(self.pod);
        let init: Vec<(Role, &Container)> = spec::init_containers(self.pod).collect();
        // All containers before the last one started in this sandbox have completed.
        let containers_started = apps.iter().any(|c| self.latest(&c.name).is_some());
        let frontier = if containers_started {
            init.len()
        } else {
            init.iter().rposition(|(_, c)| self.latest(&c.name).is_some()).unwrap_or(0)
        };
        let apps_open = apps.iter().any(|c| self.app_open(c));
        let mut blocked = false;
        for (index, (role, container)) in init.iter().enumerate() {
            let record = self.latest(&container.name);
            match role {
                Role::Sidecar => {
                    if !apps_open && (containers_started || self.is_sandbox_lost()) {
                        continue;
                    }
                    self.start_or_wait(*role, container, record, &mut starts, plan);
                    let started = record.is_some_and(|r| self.observed.started(r));
                    if !started && index >= frontier {
                        blocked = true;
                        break;
                    }
                }
                _ if index < frontier => {}
                _ if !apps_open && self.is_sandbox_lost() => {}
                _ => match record.and_then(|r| r.exit.as_ref().map(|exit| (r, exit))) {
                    Some((_, exit)) if exit.exit_code == 0 => {}
                    Some((_, exit)) if !spec::restarts_after(self.pod, *role, container, exit.exit_code) => {
                        return StartPlan::Finished;
                    }
                    _ => {
                        self.start_or_wait(*role, container, record, &mut starts, plan);
                        blocked = true;
                        break;
                    }
                },
            }
        }
        let mut hook_runs = false;
        if !blocked {
            for container in apps {
                if hook_runs {
                    break;
                }
                let record = self.observed.latest(&container.name);
                if self.app_open(container) {
                    self.start_or_wait(Role::App, container, record, &mut starts, plan);
                }
                // Kubernetes starts the next container only after this one's postStart hook (POD-6).
                hook_runs = record
                    .and_then(|r| self.observed.current(r))
                    .is_some_and(|a| a.post_start == HookState::Running)
                    && self.observed.runs(&container.name);
            }
            if !apps_open && !apps.iter().any(|c| self.observed.runs(&c.name)) {
                return StartPlan::Finished;
            }
        }
        for ephemeral in spec::ephemeral_containers(self.pod) {
            let container = object::pod::as_container(ephemeral);
            if self.observed.latest(&container.name).is_none() {
                self.start_or_wait(Role::Ephemeral, &container, None, &mut starts, plan);
            }
        }
        StartPlan::These(starts)
    }

    /// Returns true if the pod has no sandbox that is alive.
    fn is_sandbox_lost(&self) -> bool {
        !self.observed.sandbox_ready()
    }

    /// Returns true if the container runs or is to be started.
    fn app_open(&self, container: &Container) -> bool {
        match self.observed.latest(&container.name) {
            None | Some(ContainerRecord { exit: None, .. }) => true,
            Some(record @ ContainerRecord { exit: Some(exit), .. }) => {
                self.observed.restarts_for_change(record)
                    || self.is_replaced(record)
                    || spec::restarts_after(self.pod, Role::App, container, exit.exit_code)
            }
        }
    }

    fn start_or_wait(
        &self,
        role: Role,
        container: &Container,
        record: Option<&ContainerRecord>,
        starts: &mut Vec<Action>,
        plan: &mut Plan,
    ) {
        if record.is_some_and(|r| r.exit.is_none()) {
            return;
        }
        let name = &container.name;
        match restart_state(self.pod, role, container, self.observed, self.now, self.timings) {
            RestartState::Start { back_off } => {
                starts.push(Action::Start { name: name.clone(), attempt: self.next_attempt(name), back_off });
            }
            RestartState::BackOff { until, .. } => {
                plan.wake(until);
                self.record_back_off(name, until, restart::restart_event(self.pod, name), None, plan);
            }
            RestartState::Pulling { until } => {
                if let Some(until) = until {
                    plan.wake(until);
                }
            }
            RestartState::ImageBackOff { until, reported_from: shown_from } => {
                if shown_from > self.now {
                    plan.wake(shown_from);
                } else if let Some(image) = self.failed_pull(container) {
                    let message = format!("Back-off pulling image \"{}\"", image.reference);
                    self.record_back_off(name, until, message, Some(image.user), plan);
                }
                plan.wake(until);
            }
            RestartState::ErrorWait { until } => plan.wake(until),
            RestartState::Running | RestartState::Ended => {}
        }
    }

    /// The image that a container waits for, if its pull failed.
    fn failed_pull(&self, container: &Container) -> Option<NeededImage> {
        let failed = |image: &NeededImage| {
            let state = self.observed.image(&image.user);
            matches!(state, ImageState::Failed { reason: "ErrImagePull", .. })
        };
        image_pull::awaited(self.pod, container, self.observed, self.now).filter(failed)
    }

    fn record_back_off(
        &self,
        name: &str,
        until: Timestamp,
        message: String,
        image: Option<ImageUser>,
        plan: &mut Plan,
    ) {
        if self.observed.memory(name).reported_back_off != Some(until) {
            plan.push(Action::RecordBackOff { name: name.to_string(), until, message, image });
        }
    }

    /// restartCount of the next attempt: one more than the runtime or the pod's status has.
    fn next_attempt(&self, name: &str) -> u32 {
        if let Some(record) = self.observed.latest(name) {
            return record.attempt.saturating_add(1);
        }
        restart::attempts_in_status(self.pod, name)
    }

    /// Handles probes, failed probes, failed hooks, changed images and old attempts of running containers.
    fn watch_over(&self, plan: &mut Plan) {
        for (role, container) in spec::all_containers(self.pod) {
            let name = &container.name;
            let mut attempts =
                self.observed.sandbox.iter().flat_map(|s| &s.containers).filter(|c| c.name == *name);
            let count = attempts.clone().count();
            for old in attempts.by_ref().take(count.saturating_sub(2)).filter(|c| c.exit.is_some()) {
                plan.push(Action::Forget { id: old.id.clone() });
            }
            let Some(record) = self.observed.latest(name).filter(|r| r.exit.is_none()) else { continue };
            let Some(attempt) = self.observed.current(record) else { continue };
            if let Some(stop) = &attempt.stop {
                stop::one_container(
                    &container,
                    record,
                    stop,
                    stop.deadline(),
                    true,
                    self.now,
                    self.timings,
                    plan,
                );
                continue;
            }
            if let Some((message, grace, for_change)) = self.reason_to_restart(role, &container, record) {
                plan.push(Action::StopContainer {
                    name: name.clone(),
                    id: record.id.clone(),
                    message,
                    grace,
                    for_change,
                });
                continue;
            }
            if matches!(role, Role::App | Role::Sidecar)
                && !resize::same(attempt.resources.as_ref(), self.observed.resize.of(&container))
                && self.resize(&container, record, attempt, plan)
            {
                continue;
            }
            plan.probe(record, attempt, &ProbeKind::ALL, self.now);
        }
    }

    /// Brings a container's resources into effect; returns true if that ends it.
    fn resize(
        &self,
        container: &Container,
        record: &ContainerRecord,
        attempt: &AttemptMemory,
        plan: &mut Plan,
    ) -> bool {
        let (name, id) = (container.name.clone(), record.id.clone());
        let given = self.observed.resize.of(container);
        if resize::needs_restart(container, attempt.resources.as_ref(), given) {
            let message = format!("Container {name} resize requires restart");
            let grace = spec::grace(self.pod);
            plan.push(Action::StopContainer { name, id, message, grace, for_change: true });
            return true;
        }
        match &self.observed.resize.failed {
            Some(failed) if failed.until > self.now => plan.wake(failed.until),
            _ => plan.push(Action::Resize { name, id }),
        }
        false
    }

    /// Returns the message and the grace period of a running container's end, and true if it restarts under any policy.
    fn reason_to_restart(
        &self,
        role: Role,
        container: &Container,
        record: &ContainerRecord,
    ) -> Option<(String, Duration, bool)> {
        let attempt = self.observed.current(record)?;
        let name = &container.name;
        let grace = spec::grace(self.pod);
        if let HookState::Failed(_) = attempt.post_start {
            return Some(("FailedPostStartHook".into(), grace, false));
        }
        if let Some(kind) = attempt.probes.failed() {
            let own = kind.of(container).and_then(|p| p.termination_grace_period_seconds);
            let grace = own.map_or(grace, |own| spec::seconds(Some(own), 0));
            let never = role == Role::App && spec::restart_policy(self.pod) == spec::RestartPolicy::Never;
            let after = if never { "" } else { ", will be restarted" };
            return Some((format!("Container {name} failed {} probe{after}", kind.label()), grace, false));
        }
        if restart::has_new_image(container, record) && role != Role::Ephemeral && role != Role::Init {
            return Some((format!("Container {name} definition changed, will be restarted"), grace, true));
        }
        None
    }
}
