//! One run: a cluster of its own, the controller beside it, step by step until everything is at rest.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::time::Instant;

use super::plan::{DisturbanceKind, Plan, Refusal, WatchedResource};
use super::process::Controller;
use super::state::State;
use super::{ExpectedStates, Manifests, Trial};
use base::count::counted;
use cluster::apply::{self, DEFAULT_NAMESPACE, Mode, Warnings};
use object::Revision;
use podium::testing::{ClientOptions, Cluster, Failure, InjectedFailure, Requests};

/// The user agent that distinguishes our own requests from the controller's.
const USER_AGENT: &str = "podium-trial";
/// The polling interval.
const LOOK: Duration = Duration::from_millis(50);
/// A delay longer than any client waits for a response.
const NEVER: Duration = Duration::from_hours(1);
/// The maximum number of times that a controller may end by itself before the run reports a problem.
const RESTARTS: u32 = 5;
/// The shortest time between two starts of the controller.
const PAUSE: Duration = Duration::from_millis(300);

pub(super) struct RunResult {
    /// The states after each step, and after the deletion of all objects.
    pub(super) states: Vec<State>,
    /// The number of the controller's writes before each of these states.
    pub(super) writes: Vec<u32>,
    /// The resources that the controller watched.
    pub(super) watched: BTreeSet<WatchedResource>,
    /// Problems other than a wrong state.
    pub(super) problems: Vec<RunProblem>,
}

pub(super) enum RunProblem {
    /// The cluster does not come to rest.
    Restless(String),
    /// The controller ends by itself again and again: the number of times, and the end of its log.
    Ends(u32, String),
    /// A manifest could not be applied.
    NotApplied(String),
}

impl fmt::Display for RunProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restless(place) => write!(f, "{place}: the cluster does not come to rest"),
            Self::Ends(times, words) => {
                let times = counted(*times, "time");
                write!(f, "the controller exited by itself {times}; the end of its log:\n{words}")
            }
            Self::NotApplied(why) => write!(f, "cannot apply: {why}"),
        }
    }
}

/// A run under way.
struct TrialRun<'a> {
    trial: &'a Trial,
    cluster: Cluster,
    client: kube::Client,
    controller: Controller,
    last_start: ControllerStart,
    before: State,
}

/// Runs the controller through all steps, disturbed as planned.
pub(super) async fn run(
    trial: &Trial,
    manifests: &Manifests,
    plan: &Plan,
    expected: Option<&ExpectedStates>,
) -> Result<RunResult> {
    let cluster = Cluster::builder().listen().hollow_nodes(3).start().await?;
    let client = cluster.client_with(&ClientOptions::new().user_agent(USER_AGENT))?;
    let warnings = Warnings::new(|_| {});
    let refused = apply::apply_all(
        &client,
        &manifests.definitions,
        DEFAULT_NAMESPACE,
        Mode::Write,
        &warnings,
        |_, _| {},
    )
    .await;
    if let Some(error) = refused.first() {
        return Err(anyhow!("{error}"));
    }
    let kubeconfig = cluster.kubeconfig().context("the cluster has no kubeconfig")?.to_owned();
    let log = kubeconfig.with_file_name("controller.log");
    let before = wait_settled(&cluster, trial.quiet).await;
    let controller = Controller::start(&trial.command, &kubeconfig, &log)?;
    let last_start = ControllerStart::now(&cluster);
    let mut running = TrialRun { trial, cluster, client, controller, last_start, before };
    let reached = running.all(manifests, plan, expected).await;
    let TrialRun { cluster, controller, .. } = running;
    drop(controller);
    cluster.stop().await;
    reached
}

impl TrialRun<'_> {
    async fn all(
        &mut self,
        manifests: &Manifests,
        plan: &Plan,
        expected: Option<&ExpectedStates>,
    ) -> Result<RunResult> {
        let mut reached = RunResult {
            states: Vec::new(),
            writes: Vec::new(),
            watched: BTreeSet::new(),
            problems: Vec::new(),
        };
        // Before the first step the controller lists its resources, and may create objects of its own.
        if !self.wait_at_rest(|_| Ok(true), None).await? {
            reached.problems.push(RunProblem::Restless("before the first step".to_owned()));
            return Ok(reached);
        }
        for number in 0..=manifests.steps.len() {
            let documents = manifests.steps.get(number);
            let place = documents.map_or_else(
                || "after the deletion of all objects".to_owned(),
                |_| format!("step {}", number + 1),
            );
            let mut disturbing = ActiveDisturbances::begin(self, plan, number);
            let warnings = Warnings::new(|_| {});
            let (client, mode) = (&self.client, Mode::Write);
            let errors = if let Some(documents) = documents {
                apply::apply_all(client, documents, DEFAULT_NAMESPACE, mode, &warnings, |_, _| {}).await
            } else {
                // An object may already have been deleted together with another, so errors are ignored.
                let all: Vec<_> = manifests.steps.iter().flatten().cloned().collect();
                apply::delete_all(client, &all, DEFAULT_NAMESPACE, mode, &warnings, |_| {}).await;
                Vec::new()
            };
            reached.problems.extend(errors.into_iter().map(RunProblem::NotApplied));
            let expected = expected.map(|expected| (expected, number));
            let rests = self.wait_at_rest(|running| disturbing.go_on(running), expected).await?;
            reached.watched.extend(self.cluster.watched_resources(&controller_requests()));
            reached.writes.push(disturbing.end());
            // With expected states, the comparison with them shows whether a cluster that does not come to rest is
            // wrong.
            if !rests && expected.is_none() {
                reached.problems.push(RunProblem::Restless(place));
            }
            reached.states.push(State::of(self.cluster.api(), &self.before));
        }
        let times = self.controller.ended;
        if times > RESTARTS {
            reached.problems.push(RunProblem::Ends(times, self.controller.last_output()));
        }
        Ok(reached)
    }

    fn note_start(&mut self) {
        self.last_start = ControllerStart::now(&self.cluster);
    }

    /// Waits until the state has not changed for the quiet period since the controller began to read, all disturbances
    /// are over and the expected state is reached. Returns false if that takes too long. Without an expected state it
    /// waits for twice the quiet period, because later runs are compared with this one.
    async fn wait_at_rest(
        &mut self,
        mut is_over: impl FnMut(&mut Self) -> Result<bool>,
        expected: Option<(&ExpectedStates, usize)>,
    ) -> Result<bool> {
        let quiet = if expected.is_some() { self.trial.quiet } else { self.trial.quiet * 2 };
        let mut look = RestObservation::first(&self.cluster, &self.before);
        let mut over = None;
        loop {
            tokio::time::sleep(LOOK).await;
            if self.last_start.at.elapsed() >= PAUSE && self.controller.keep()? {
                self.note_start();
            }
            let is_over = is_over(self)?;
            look.refresh(&self.cluster, &self.before);
            if !is_over {
                continue;
            }
            let over = *over.get_or_insert_with(Instant::now);
            // A controller that has started and not yet looked at the cluster will still change something.
            let Some(active) = self.last_start.first_read_within(self.trial.timeout) else {
                continue;
            };
            let latest = look.changed.max(over).max(active);
            let is_reached =
                || expected.is_none_or(|(all, moment)| all.differences(moment, &look.state).is_empty());
            if latest.elapsed() >= quiet && is_reached() {
                return Ok(true);
            }
            if over.elapsed() > self.trial.timeout {
                return Ok(false);
            }
        }
    }
}

/// Returns the state once a cluster has created all its own objects.
async fn wait_settled(cluster: &Cluster, quiet: Duration) -> State {
    let none = State::default();
    let mut look = RestObservation::first(cluster, &none);
    while look.changed.elapsed() < quiet {
        tokio::time::sleep(LOOK).await;
        look.refresh(cluster, &none);
    }
    look.state
}

/// The state, and the time of its last change.
struct RestObservation {
    state: State,
    changed: Instant,
    /// The state was read at this revision or a later one.
    revision: Revision,
}

impl RestObservation {
    fn first(cluster: &Cluster, before: &State) -> Self {
        let revision = cluster.api().revision();
        Self { state: State::of(cluster.api(), before), changed: Instant::now(), revision }
    }

    fn refresh(&mut self, cluster: &Cluster, before: &State) {
        let now = cluster.api().revision();
        if now == self.revision {
            return;
        }
        self.revision = now;
        let state = State::of(cluster.api(), before);
        if state != self.state {
            (self.state, self.changed) = (state, Instant::now());
        }
    }
}

/// A start of the controller, and the time of its first read after it.
struct ControllerStart {
    at: Instant,
    /// Rules that count the controller's reads and change nothing.
    reads: [InjectedFailure; 3],
    first_read: Option<Instant>,
}

impl ControllerStart {
    fn now(cluster: &Cluster) -> Self {
        let reads = ["get", "list", "watch"]
            .map(|verb| cluster.fail(controller_requests().verb(verb), Failure::Delay(Duration::ZERO)));
        Self { at: Instant::now(), reads, first_read: None }
    }

    /// Returns the time of the first read if there was one. A controller that reads nothing for the timeout of a step
    /// counts as one that has read.
    fn first_read_within(&mut self, timeout: Duration) -> Option<Instant> {
        if self.first_read.is_none()
            && (self.at.elapsed() >= timeout || self.reads.iter().any(|read| read.hits() > 0))
        {
            self.first_read = Some(Instant::now());
        }
        self.first_read
    }
}

impl Drop for ControllerStart {
    fn drop(&mut self) {
        self.reads.iter().for_each(InjectedFailure::heal);
    }
}

/// Matches the controller's requests.
fn controller_requests() -> Requests {
    Requests::all().not_from(USER_AGENT)
}

/// The disturbances of a step.
struct ActiveDisturbances {
    /// The rules for the controller's writes, in order. Each matches a number of consecutive writes, and the last one
    /// all further writes.
    writes: Vec<InjectedFailure>,
    /// The rules for writes after which the controller is killed.
    kills: Vec<InjectedFailure>,
    paused: Vec<PausedWatch>,
}

/// Watches that deliver nothing for a while.
struct PausedWatch {
    requests: Requests,
    watches: Option<podium::testing::PausedWatches>,
    until: Instant,
    misses: bool,
}

impl ActiveDisturbances {
    fn begin(running: &TrialRun<'_>, plan: &Plan, step: usize) -> Self {
        let cluster = &running.cluster;
        let mut disturbing = Self { writes: Vec::new(), kills: Vec::new(), paused: Vec::new() };
        let mut of_writes: Vec<(u32, &DisturbanceKind)> =
            plan.of(step).filter_map(|what| Some((what.write()?, what))).collect();
        of_writes.sort_by_key(|(write, _)| *write);
        let writes = || controller_requests().writing();
        let mut next = 1;
        for (write, what) in of_writes {
            if write > next {
                disturbing.writes.push(cluster.fail_next(
                    write - next,
                    writes(),
                    Failure::Delay(Duration::ZERO),
                ));
            }
            next = write + 1;
            let failure = match what {
                DisturbanceKind::Refused { how: Refusal::Conflict, .. } => Failure::Conflict,
                DisturbanceKind::Refused { how: Refusal::Unavailable, .. } => Failure::Unavailable,
                DisturbanceKind::Refused { how: Refusal::AnswerLost, .. } => Failure::AnswerLost,
                DisturbanceKind::Killed { .. } | DisturbanceKind::Stale { .. } => {
                    Failure::AnswerDelayed(NEVER)
                }
            };
            let injected = cluster.fail_next(1, writes(), failure);
            if matches!(what, DisturbanceKind::Killed { .. }) {
                disturbing.kills.push(injected.clone());
            }
            disturbing.writes.push(injected);
        }
        disturbing.writes.push(cluster.fail(writes(), Failure::Delay(Duration::ZERO)));
        for what in plan.of(step) {
            if let DisturbanceKind::Stale { watched: (resource, group), lasts, misses } = what {
                let name = if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") };
                let requests = Requests::to(&name).verb("watch").not_from(USER_AGENT);
                let watches = Some(cluster.hold_watches(requests.clone()));
                let until = Instant::now() + *lasts;
                disturbing.paused.push(PausedWatch { requests, watches, until, misses: *misses });
            }
        }
        disturbing
    }

    /// Executes the disturbances that are due. Returns true once all held watches are released. Does not wait for
    /// planned kills, because the controller may never make the write that triggers one.
    fn go_on(&mut self, running: &mut TrialRun<'_>) -> Result<bool> {
        let due: Vec<InjectedFailure> = self.kills.extract_if(.., |kill| kill.hits() > 0).collect();
        if !due.is_empty() {
            running.controller.restart()?;
            running.note_start();
        }
        for held in self.paused.iter_mut().filter(|held| held.until <= Instant::now()) {
            let Some(watches) = held.watches.take() else { continue };
            if held.misses {
                running.cluster.expire_watches(&held.requests);
            }
            watches.release();
        }
        Ok(self.paused.iter().all(|held| held.watches.is_none()))
    }

    /// Ends all disturbances. Returns the number of the controller's writes.
    fn end(self) -> u32 {
        self.writes.iter().for_each(InjectedFailure::heal);
        self.writes.iter().map(InjectedFailure::hits).sum()
    }
}
