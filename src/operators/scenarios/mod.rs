//! Plays scenarios, as Scenario objects request (FAULT-2).
//!
//! The object is the only state: if the control plane dies in the middle, the next one continues from the status. Time
//! without observation does not count for checks; the scenario's own time continues. This controller is not among the
//! registered ones, because a scenario may crash those.
//!
//! `progress` and `score` decide, purely; `observe` evaluates the checks; `actions` executes actions, by the API alone;
//! `runs` records the results.

mod actions;
mod objects;
mod observe;
mod progress;
mod runs;
mod score;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;

use actions::{ActionError, ActionExecutor};
use api::controller_status::Subsystem;
use api::{Api, ApiError};
use base::sort::SliceOrder;
use base::task::Tasks;
use extension::scenario::{READY_LIMIT, Scenario, ScenarioPhase, ScenarioRun, ScenarioStatus};
use object::owner::is_terminating;
use object::well_known::finalizer::PODIUM_SCENARIO;
use object::{SharedObject, TypedKind};
use observe::Expressions;
use progress::{NextAction, ScenarioObservation};
use reconcile::{Caches, Recorder, WorkLoop, ignore_not_found, preconditions};
use runs::Runs;

/// The interval at which a scenario is evaluated.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of scenarios played at once; others wait.
const MAX_CONCURRENT: usize = 4;
/// The maximum number of actions for a scenario in one pass.
const MAX_ACTIONS: usize = 256;

/// Plays scenarios until `tasks` end. Results are recorded in the cluster, and in `runs_file` if there is one.
pub fn start(api: &Api, caches: &Caches, tasks: &Tasks, client: kube::Client, runs_file: Option<PathBuf>) {
    let changed = Arc::new(Notify::new());
    let notified = changed.clone();
    caches.on_any_change(Scenario::kind(), move |_| notified.notify_one());
    let api = api.acting_as("podium-scenarios");
    let recorder = Recorder::new(&api, "podium-scenarios");
    let runs = Runs::new(&api, runs_file);
    let rounds = WorkLoop::start(&api, "scenarios", Subsystem::Cluster, tasks);
    let director =
        ScenarioController { recorder, api, client, changed, runs, expressions: Arc::default(), rounds };
    tasks.spawn_restarting("scenarios", move || director.clone().run());
}

#[derive(Clone)]
struct ScenarioController {
    api: Api,
    client: kube::Client,
    recorder: Recorder,
    changed: Arc<Notify>,
    runs: Runs,
    /// The compiled expressions of the scenarios in progress, by uid.
    expressions: Arc<Mutex<BTreeMap<String, Arc<Expressions>>>>,
    rounds: Arc<WorkLoop>,
}

impl ScenarioController {
    async fn run(self) {
        self.runs.restore().await;
        loop {
            let mut all = self.api.list_as::<Scenario>(None);
            all.retain(|one| is_terminating(&one.metadata) || !is_done(one));
            all.order_by_key(|one| {
                (one.metadata.creation_timestamp.clone().map(|at| at.0), one.name().to_owned())
            });
            let (going, playing): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|one| is_terminating(&one.metadata) || one.phase().has_ended());
            let playing = &playing[..playing.len().min(MAX_CONCURRENT)];
            self.expressions.lock().retain(|uid, _| playing.iter().any(|one| one.uid() == uid));
            futures::future::join_all(going.iter().chain(playing).map(|one| self.sync(one))).await;
            let has_work = !going.is_empty() || !playing.is_empty();
            let again = has_work.then_some(RECHECK_INTERVAL);
            tokio::select! {
                () = self.changed.notified() => {}
                () = self.api.clock().sleep_if_some(again) => {}
            }
        }
    }

    async fn sync(&self, scenario: &SharedObject<Scenario>) {
        let round = self.rounds.begin(format!("scenario {}", scenario.name()));
        let outcome = if is_terminating(&scenario.metadata) {
            self.end(scenario)
        } else {
            self.advance(scenario).await
        };
        round.ends(outcome.as_ref().map(drop));
        if let Err(error) = outcome {
            tracing::warn!(scenario = scenario.name(), "cannot process the scenario; retrying: {error}");
        }
    }

    /// Ends a scenario that is being deleted: removes the objects that it has created, then the scenario itself.
    fn end(&self, scenario: &SharedObject<Scenario>) -> Result<(), ApiError> {
        let executor = ActionExecutor { api: &self.api, client: &self.client, scenario, uid: scenario.uid() };
        match executor.clean_up() {
            Ok(true) => preconditions::remove_finalizer(&self.api, scenario, PODIUM_SCENARIO),
            Ok(false) => Ok(()),
            Err(ActionError::Later(why) | ActionError::Never(why)) => {
                tracing::warn!(scenario = scenario.name(), "cannot clean up the scenario yet: {why}");
                Ok(())
            }
        }
    }

    /// Executes the due actions, and writes the status.
    async fn advance(&self, scenario: &SharedObject<Scenario>) -> Result<(), ApiError> {
        if scenario.phase() == ScenarioPhase::Pending {
            preconditions::add_finalizer(&self.api, scenario, PODIUM_SCENARIO)?;
        }
        let mut current: Scenario = (**scenario).clone();
        if !scenario.phase().has_ended()
            && !self.expressions.lock().contains_key(scenario.uid())
            && current.status.as_mut().is_some_and(progress::resume)
        {
            let message = "The control plane restarted: the time for which each check holds starts again";
            self.recorder.normal(scenario.object(), "ScenarioResumed", message);
        }
        for _ in 0..MAX_ACTIONS {
            let before = current.status.clone().unwrap_or_default();
            let now = self.api.clock().now();
            let seen = self.observe(&current, scenario.uid());
            let (mut status, act) = progress::next(&current, &seen, now);
            let goes_on = self.act(&current, scenario, act, &mut status, now).await;
            let is_same = status == before;
            current.status = Some(status);
            if !is_same {
                // The run is recorded before the status shows the end, so that a client that sees the end finds the
                // result.
                if !before.phase.has_ended()
                    && let Some(run) = ScenarioRun::of(&current)
                {
                    self.runs.keep(scenario.name(), run).await;
                }
                self.write(scenario, &before, current.status.as_ref().unwrap_or(&before))?;
            }
            if is_same || !goes_on {
                break;
            }
        }
        Ok(())
    }

    fn observe(&self, scenario: &Scenario, uid: &str) -> ScenarioObservation {
        let checks = progress::checks_of(scenario);
        let expressions = self.expressions_of(scenario, uid);
        let checks = observe::evaluate_checks(&self.api, scenario, checks, &expressions);
        let status = scenario.status.as_ref();
        let since =
            status.filter(|status| status.detected_at.is_none() && status.phase == ScenarioPhase::Running);
        let since = since.and_then(|status| status.troubled_at.as_ref());
        let action = since.and_then(|since| observe::first_action(&self.api, scenario, uid, since.0));
        ScenarioObservation { checks, action, invalid_expression: expressions.error() }
    }

    fn expressions_of(&self, scenario: &Scenario, uid: &str) -> Arc<Expressions> {
        let mut known = self.expressions.lock();
        known.entry(uid.to_owned()).or_insert_with(|| Arc::new(Expressions::of(&scenario.spec))).clone()
    }

    /// Executes an action and records its outcome in the status; returns true if more actions may be due at once.
    async fn act(
        &self,
        current: &Scenario,
        scenario: &SharedObject<Scenario>,
        act: NextAction,
        status: &mut ScenarioStatus,
        now: Timestamp,
    ) -> bool {
        let spec = &current.spec;
        let executor =
            ActionExecutor { api: &self.api, client: &self.client, scenario: current, uid: scenario.uid() };
        let outcome = match act {
            NextAction::Wait => return status.phase != current.phase(),
            NextAction::SetUp(index) => executor.apply(&spec.setup[index]).await.map(|()| {
                status.setup_done = i32::try_from(index + 1).unwrap_or(i32::MAX);
            }),
            NextAction::Begin => self.begin(current, scenario.uid(), status, now),
            NextAction::Step(index) => executor.step(&spec.steps[index]).await.map(|()| {
                progress::step_done(status, index, self.api.clock().now());
                let at = &spec.steps[index].at;
                self.recorder.normal(
                    scenario.object(),
                    "StepDone",
                    format!("Step {} (at {at}) is done", index + 1),
                );
            }),
            NextAction::CleanUp => executor.clean_up().map(|is_done| status.cleaned = is_done),
        };
        match outcome {
            Ok(()) => act != NextAction::CleanUp,
            Err(ActionError::Later(why)) => {
                if !status.phase.has_ended() {
                    status.message = Some(why);
                }
                false
            }
            Err(ActionError::Never(why)) if act == NextAction::CleanUp => {
                tracing::warn!(scenario = scenario.name(), "cannot clean up the scenario: {why}");
                false
            }
            Err(ActionError::Never(why)) => {
                progress::fail(spec, status, "CannotBePlayed", &why, now);
                true
            }
        }
    }

    fn begin(
        &self,
        current: &Scenario,
        uid: &str,
        status: &mut ScenarioStatus,
        now: Timestamp,
    ) -> Result<(), ActionError> {
        let found = observe::evaluate_variables(&self.api, &current.spec, &self.expressions_of(current, uid));
        let found = found.map_err(|why| {
            let prepared = status.prepared_at.as_ref().map_or(now, |at| at.0);
            if base::clock::since(now, prepared) >= READY_LIMIT {
                ActionError::Never(why)
            } else {
                ActionError::Later(why)
            }
        })?;
        status.variables = found.into_iter().collect();
        let briefing = objects::text_with(&current.spec.briefing, &status.variables);
        progress::begin(&current.spec, status, briefing, now);
        Ok(())
    }

    /// Writes the status of a scenario; when the scenario ends, records its result as an event.
    fn write(
        &self,
        scenario: &SharedObject<Scenario>,
        before: &ScenarioStatus,
        status: &ScenarioStatus,
    ) -> Result<(), ApiError> {
        ignore_not_found(preconditions::modify_status(&self.api, scenario, |fresh| {
            fresh.status = Some(status.clone());
        }))?;
        if before.phase != status.phase {
            let title = &scenario.spec.title;
            let message = status.message.as_deref().unwrap_or_default();
            match status.phase {
                ScenarioPhase::Pending | ScenarioPhase::Preparing => {}
                ScenarioPhase::Running => {
                    self.recorder.normal(scenario.object(), "ScenarioBegan", format!("{title}: started"));
                }
                ScenarioPhase::Passed => {
                    let score = status.score.unwrap_or_default();
                    self.recorder.normal(
                        scenario.object(),
                        "ScenarioPassed",
                        format!("{title}: {score} of 100: {message}"),
                    );
                }
                ScenarioPhase::Failed => {
                    self.recorder.warning(scenario.object(), "ScenarioFailed", format!("{title}: {message}"));
                }
            }
        }
        Ok(())
    }
}

/// Returns true if the scenario has ended and is cleaned up.
fn is_done(scenario: &Scenario) -> bool {
    scenario.phase().has_ended() && scenario.status.as_ref().is_some_and(|status| status.cleaned)
}
