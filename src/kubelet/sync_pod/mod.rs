//! One pass over one pod: observe, plan, execute, until nothing is left to do but wait; then its status.
//!
//! Long tasks (hooks, probes) run beside the pass and send an event at their end, so that a pass is short and a
//! deletion never waits behind a hook.
//!
//! Architecture Invariant: nothing here decides; `plan` does, and `status` composes.

mod background;
mod events;
mod finish;
mod mirror;
mod pull;
mod resize;
mod setup;
mod start;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::adopt::adopt;
use super::mirror_pod::is_static;
use super::node::{Node, NodeShutdown, ShutdownMode};
use super::observed::{AttemptMemory, ContainerStop, PodStop, SetupState, StopCause};
use super::plan::{self, Action, plan};
use super::pod_workers::{Outcome, PodEvent, PodState, PodSyncer, PodUpdate, PodWorkers};
use super::runtime::{ContainerId, ContainerRecord, RuntimeError};
use super::spec;
use super::status::{StatusStage, compose_status, keep_not_ready};
use crate::ips::Ips;
use api::{ApiError, DeleteOptions};
use base::backoff::BackoffPolicy;
use base::clock::{saturating_after, until};
use base::mistakes::Mistake;
use object::{Kind, Revision, SharedObject};
use reconcile::{EventType, reference_to};

/// The maximum number of plans in a pass; more would mean a plan that never comes to rest.
const ROUNDS: usize = 64;
/// The interval at which a runtime that does not report the state of a pod is queried again.
const RUNTIME_RETRY: Duration = Duration::from_secs(1);

/// The interval at which a status that the API refused is written again, as in Kubernetes' status manager.
const STATUS_RETRY: Duration = Duration::from_secs(10);

/// The interval at which the creation of a mirror pod is retried.
const MIRROR_RETRY: Duration = Duration::from_secs(10);

/// Syncs pods with a node's runtime.
pub(super) struct RuntimeSyncer;

impl PodSyncer for RuntimeSyncer {
    fn sync_pod<'a>(
        &'a self,
        workers: &'a Arc<PodWorkers>,
        node: &'a Arc<Node>,
        update: PodUpdate,
        state: &'a mut PodState,
    ) -> BoxFuture<'a, Outcome> {
        let PodUpdate { pod, deleted: gone, events } = update;
        SyncPod { workers, node, pod, deleted: gone, state }.run(events).boxed()
    }
}

/// A pass at work.
struct SyncPod<'a> {
    workers: &'a Arc<PodWorkers>,
    node: &'a Arc<Node>,
    pod: SharedObject<Pod>,
    /// The pod's object was removed.
    deleted: bool,
    state: &'a mut PodState,
}

/// The result of an action, which determines the pass's next step.
enum ActionResult {
    /// Continue with the next action.
    Next,
    /// Observe and plan again before anything else.
    Replan,
    /// The action failed: it is retried later.
    Failed(String),
    /// Nothing of the pod is left.
    End(Outcome),
}

fn after(result: Result<(), RuntimeError>) -> ActionResult {
    match result {
        Ok(()) => ActionResult::Replan,
        Err(error) => ActionResult::Failed(format!("runtime: {error}")),
    }
}

impl SyncPod<'_> {
    /// Returns the time on the steady clock, by which all deadlines go.
    fn now(&self) -> Timestamp {
        self.workers.context.clock.steady()
    }

    fn record_times(&mut self) {
        let started = self.pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|at| at.0);
        self.state.observed.skew = self.node.clock.skew();
        self.state.observed.record_times(started, self.workers.context.clock.both());
    }

    fn plan(&mut self) -> plan::Plan {
        self.record_times();
        plan(&self.pod, &self.state.observed, self.now(), &self.workers.context.timings)
    }

    /// Executes all due actions.
    async fn run(mut self, events: Vec<PodEvent>) -> Outcome {
        // After probe results and resyncs alone, the status stays as it was written.
        let mut only_probes = !events.is_empty();
        self.take_events(events);
        self.forget_outdated_pulls();
        if let Some(closed) = self.node.closing() {
            self.shut_down(closed);
        }
        if self.deleted {
            self.stop_orphan();
        }
        let (mut wake, mut held) = (None, Vec::new());
        for _ in 0..ROUNDS {
            held.clear();
            if self.state.stale
                && let Err(error) = self.refresh().await
            {
                let text = format!("cannot inspect the pod: {error}");
                if self.state.inspect_error.as_ref() != Some(&text) {
                    tracing::warn!(pod = %self.pod.key(), "{text}");
                    self.state.inspect_error = Some(text.clone());
                }
                self.state.failure = Some(text);
                return Outcome::Wait(Some(saturating_after(self.now(), RUNTIME_RETRY)));
            }
            self.admit();
            self.find_memory();
            self.resize();
            self.refresh_volumes().await;
            let plan = self.plan();
            wake = plan.next_wake;
            if plan.actions.is_empty() {
                break;
            }
            let all_probes = plan.actions.iter().all(|action| matches!(action, Action::Probe { .. }));
            only_probes |= all_probes;
            if !all_probes {
                self.state.reported = None;
            }
            let mut again = false;
            for action in plan.actions {
                if let Some(until) = self.state.retry.waits(&action, self.workers.context.clock.monotonic()) {
                    held.push(until);
                    continue;
                }
                again = true;
                match self.execute(action.clone()).await {
                    ActionResult::Next => self.state.retry.done(&action),
                    ActionResult::Replan => {
                        self.state.retry.done(&action);
                        break;
                    }
                    ActionResult::Failed(text) => held.push(self.try_later(action, &text)),
                    ActionResult::End(end) => return end,
                }
            }
            if !again || all_probes {
                break;
            }
        }
        if (!only_probes || self.state.reported != Some(self.pod.revision()))
            && let Err(error) = self.write_status(StatusStage::Current)
        {
            tracing::warn!(pod = %self.pod.key(), "cannot write the pod's status: {error}");
            self.state.failure = Some(format!("cannot write the pod's status: {error}"));
            held.push(self.workers.context.clock.monotonic() + STATUS_RETRY);
        }
        self.release_shared();
        if self.state.observed.shutdown {
            // Only the status that was just written may show that the pod has ended for good.
            let last = self.plan();
            let waits = self.state.retry.waits(&Action::Remove, self.workers.context.clock.monotonic());
            if last.actions == [Action::Remove] && waits.is_none() {
                match self.remove().await {
                    ActionResult::End(end) => return end,
                    ActionResult::Failed(text) => held.push(self.try_later(Action::Remove, &text)),
                    ActionResult::Next | ActionResult::Replan => {}
                }
            }
        }
        if spec::spec(&self.pod).active_deadline_seconds.is_some() {
            // The deadline counts from the start time in the first status.
            wake = self.plan().next_wake;
        }
        if is_static(&self.pod) && self.workers.mirror_of(self.pod.uid()).object.is_none() {
            let again = saturating_after(self.now(), MIRROR_RETRY);
            wake = Some(wake.map_or(again, |at| at.min(again)));
        }
        let renewal = self.state.tokens.renew_at().filter(|_| self.state.observed.stop.is_none());
        let renewal =
            renewal.map(|at| saturating_after(self.now(), until(self.workers.context.clock.now(), at)));
        let refresh = self.state.refresh_retry.filter(|_| self.state.observed.stop.is_none());
        let held = held.into_iter().min().map(|at| self.steady_at(at));
        Outcome::Wait([wake, renewal, refresh, held].into_iter().flatten().min())
    }

    /// Remembers that an action failed; returns the time of its next attempt on the monotonic clock.
    fn try_later(&mut self, action: Action, text: &str) -> Duration {
        let timings = &self.workers.context.timings;
        let policy = BackoffPolicy {
            initial: timings.cleanup_back_off_initial.0,
            max: timings.cleanup_back_off_max.0,
        };
        self.state.failure = Some(text.to_owned());
        let now = self.workers.context.clock.monotonic();
        let (until, is_new) = self.state.retry.failed(action, text.to_owned(), now, policy);
        if is_new {
            tracing::warn!(pod = %self.pod.key(), node = self.node.config.name, "{text}");
        }
        until
    }

    /// Converts a moment of the monotonic clock to the steady one.
    fn steady_at(&self, at: Duration) -> Timestamp {
        saturating_after(self.now(), at.saturating_sub(self.workers.context.clock.monotonic()))
    }

    /// Reads the state of the pod from the runtime.
    async fn refresh(&mut self) -> Result<(), RuntimeError> {
        let uid = self.pod.uid().to_string();
        let observed = &mut self.state.observed;
        observed.sandbox = self.node.runtime.inspect(&uid).await?;
        observed.host_ips = self.node.config.ips();
        if let (None, Some(sandbox)) = (observed.ips.first, &observed.sandbox) {
            observed.ips = Ips { first: Some(sandbox.spec.ip), second: sandbox.spec.second_ip };
        }
        if !self.state.adopted {
            self.state.adopted = true;
            self.state.observed.own_mounts = self.node.config.hollow || self.node.runtime.has_namespaces();
            if self.state.observed.sandbox_ready() {
                // Its volumes were created before the sandbox; their content may have changed meanwhile.
                self.state.observed.setup = SetupState::Ready;
                self.state.memory = self.node.runtime.memory();
                self.state.refresh = true;
            }
            self.state.observed.skew = self.node.clock.skew();
            adopt(&self.pod, &mut self.state.observed, self.workers.context.clock.both());
        }
        (self.state.stale, self.state.reported, self.state.inspect_error) = (false, None, None);
        self.read_log_messages().await;
        Ok(())
    }

    async fn execute(&mut self, action: Action) -> ActionResult {
        match action {
            Action::Prepare => self.prepare().await,
            Action::RunSandbox => self.run_sandbox().await,
            Action::StopSandbox => {
                let uid = self.pod.uid().to_string();
                self.state.stale = true;
                after(self.node.runtime.stop_sandbox(&uid).await)
            }
            Action::Start { name, attempt, back_off } => self.start(&name, attempt, back_off).await,
            Action::StopContainer { name, id, message, grace, for_change } => {
                self.container_event(&name, EventType::Normal, "Killing", message);
                let stop = ContainerStop { for_change, ..ContainerStop::new(self.now(), grace) };
                if let Some(attempt) = self.attempt_mut(&name, &id) {
                    attempt.stop = Some(stop);
                }
                ActionResult::Next
            }
            Action::Resize { name, id } => self.resize_container(&name, &id).await,
            Action::PreStop { name, id, deadline } => self.pre_stop(&name, &id, deadline),
            Action::Terminate { name, id } => {
                let now = self.now();
                if let Some(stop) = self.attempt_mut(&name, &id).and_then(|a| a.stop.as_mut()) {
                    stop.terminated_at = Some(now);
                }
                self.state.stale = true;
                Self::ignoring_absence(self.node.runtime.terminate_container(&id).await)
            }
            Action::Kill { name, id } => {
                let now = self.now();
                if let Some(stop) = self.attempt_mut(&name, &id).and_then(|a| a.stop.as_mut()) {
                    stop.killed_at = Some(now);
                }
                self.state.stale = true;
                Self::ignoring_absence(self.node.runtime.kill_container(&id).await)
            }
            Action::Probe { name, id, kind } => {
                self.start_probe(&name, id, kind);
                ActionResult::Next
            }
            Action::RecordBackOff { name, until, message, image } => {
                match image {
                    Some(user) => {
                        self.image_event(&user, EventType::Normal, "BackOff", message);
                        self.image_error_event(&user, "ImagePullBackOff");
                    }
                    None => self.container_event(&name, EventType::Warning, "BackOff", message),
                }
                self.state.observed.memory_mut(&name).reported_back_off = Some(until);
                ActionResult::Next
            }
            Action::Forget { id } => {
                self.state.stale = true;
                Self::ignoring_absence(self.node.runtime.remove_container(&id).await)
            }
            Action::StopPod { cause, grace } => {
                if Mistake::RemoveBeforeStop.is_enabled() && cause.removes_pod() {
                    let options = DeleteOptions {
                        grace_period_seconds: Some(0),
                        ..DeleteOptions::uid(self.pod.uid().to_string())
                    };
                    let _ = self.workers.context.api.delete(Kind::Pod, &self.pod.key(), &options);
                }
                if let StopCause::Failed { reason, message, .. } = &cause {
                    self.event(EventType::Normal, reason, message.clone());
                }
                self.stop_pod(cause, grace);
                ActionResult::Replan
            }
            Action::Remove => self.remove().await,
        }
    }

    fn ignoring_absence(result: Result<(), RuntimeError>) -> ActionResult {
        match result {
            Err(RuntimeError::NotFound(_)) => ActionResult::Replan,
            other => after(other),
        }
    }

    fn attempt_mut(&mut self, name: &str, id: &ContainerId) -> Option<&mut AttemptMemory> {
        self.state.observed.memory_mut(name).current.as_mut().filter(|attempt| attempt.id == *id)
    }

    fn stop_pod(&mut self, cause: StopCause, grace: Duration) {
        let now = self.now();
        let began = match &self.state.observed.stop {
            // A stop in progress keeps its start; a new cause only changes its reason and grace period.
            Some(stop) if stop.cause != StopCause::Completed => stop.began,
            _ => now,
        };
        self.state.observed.stop = Some(PodStop { cause, began, grace });
        self.state.pulls.clear();
    }

    /// The node stops: the pod's processes end, its object stays for the next start. No grace period exceeds that of
    /// the stop.
    fn shut_down(&mut self, closed: NodeShutdown) {
        self.state.observed.shutdown = true;
        let by_force = closed.how == ShutdownMode::Forced;
        let now = self.now();
        let passed = self.workers.context.clock.monotonic().saturating_sub(closed.since);
        let limit = self.workers.context.timings.shutdown_grace_period.0.saturating_sub(passed);
        let left = if by_force { Duration::ZERO } else { limit };
        let grace = spec::grace(&self.pod).min(left);
        let stop = &mut self.state.observed.stop;
        match stop {
            // A stop in progress continues, with an earlier end.
            Some(stop) if stop.cause != StopCause::Completed => {
                if by_force || until(now, stop.deadline()) > left {
                    (stop.began, stop.grace) = (now, left);
                }
            }
            _ => *stop = Some(PodStop { cause: StopCause::Shutdown, began: now, grace }),
        }
    }

    /// The object was removed: the processes follow within a small grace period (POD-8, SAFE-3).
    fn stop_orphan(&mut self) {
        let now = self.now();
        let small = self.workers.context.timings.force_delete_grace_period.0;
        let stop = &mut self.state.observed.stop;
        match stop {
            Some(stop) if stop.cause == StopCause::Orphaned => {}
            Some(stop) if stop.cause == StopCause::Deleted => {
                let left = until(now, stop.deadline()).min(small);
                *stop = PodStop { cause: StopCause::Orphaned, began: now, grace: left };
            }
            _ => *stop = Some(PodStop { cause: StopCause::Orphaned, began: now, grace: small }),
        }
    }

    /// Writes the status if it differs from the API's. A removed object needs no status.
    fn write_status(&mut self, moment: StatusStage) -> Result<(), ApiError> {
        let shutting_down = self.state.observed.stop.as_ref().is_some_and(|s| s.cause == StopCause::Shutdown);
        if self.deleted || shutting_down {
            return Ok(());
        }
        if is_static(&self.pod) {
            self.write_mirror(moment);
            return Ok(());
        }
        self.record_times();
        let (workers, now) = (self.workers, self.node.clock.both());
        let is_silent = self.node.health.failure().is_some();
        let compose = |pod: &Pod, pass: &Self| {
            let mut status = compose_status(pod, &pass.state.observed, now, &workers.context.timings, moment);
            if is_silent {
                keep_not_ready(pod, &mut status);
            }
            status
        };
        if Some(compose(&self.pod, self)) == self.pod.status {
            self.state.reported = Some(self.pod.revision());
            return Ok(());
        }
        let (key, uid) = (self.pod.key(), self.pod.uid().to_string());
        let mut onto = Revision::default();
        let written = workers.context.api.modify_status::<Pod>(&key, |pod| {
            onto = Revision::of(&pod.metadata);
            if pod.metadata.uid.as_deref() != Some(&uid) {
                return Err(ApiError::not_found(object::Kind::Pod, &key));
            }
            pod.status = Some(compose(pod, self));
            Ok(())
        });
        match written {
            Ok(pod) => {
                self.node.counts.wrote_status();
                if plan::is_terminal(&pod) {
                    let waiting = self.node.admitted.lock().release(&uid);
                    workers.resync(waiting);
                }
                workers.wrote(onto, &pod);
                self.state.reported = Some(pod.revision());
                self.pod = pod;
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn event(&self, type_: EventType, reason: &str, message: impl Into<String>) {
        self.node.recorder.record(reference_to(self.pod.object()), type_, reason, message.into());
    }

    /// An event about one container of the pod.
    fn container_event(&self, name: &str, type_: EventType, reason: &str, message: impl Into<String>) {
        let mut about = reference_to(self.pod.object());
        let list = match spec::container(&self.pod, name).map(|(role, _)| role) {
            Some(spec::Role::Init | spec::Role::Sidecar) => "initContainers",
            Some(spec::Role::Ephemeral) => "ephemeralContainers",
            _ => "containers",
        };
        about.field_path = Some(format!("spec.{list}{{{name}}}"));
        self.node.recorder.record(about, type_, reason, message.into());
    }

    /// The record of a container's newest attempt.
    fn latest<'a>(&'a self, name: &'a str) -> Option<&'a ContainerRecord> {
        self.state.observed.latest(name)
    }
}
