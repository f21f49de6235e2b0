//! The simulator (FAULT-3): the whole control plane in one thread under virtual time, with all randomness derived from
//! one seed, so that a failure can be repeated exactly.
//!
//! `plan` draws the operations and faults, `world` is the cluster that they affect, `clients` and `faults` execute
//! them, `checks` check what clients and watchers receive, `livelock` checks that time passes, `trace` records it all,
//! `campaign` runs many seeds and shrinks a failing plan.
//!
//! A process runs exactly one simulation: `std`'s hash maps and tokio draw their random seeds once per process and
//! thread (`src/lab/entropy.rs`), so the same seed repeats a simulation only in a new process.

mod campaign;
mod checks;
mod clients;
mod command;
mod faults;
mod livelock;
mod plan;
mod trace;
mod world;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use api::{Api, Change, ChangeKind, Visibility};
use base::count::counted;
use object::time::go_duration;
use object::{Kind, Revision};

use campaign::{Campaign, run as run_campaign};
use checks::Checks;
use cluster::differences;
pub(crate) use command::{SimulateRequest, duration, run as run_command};
use livelock::{LivelockDetector, NAMED};
use plan::{Plan, PlanStep};
use trace::Violation;
use world::{ControlPlane, World};

/// The time after the last fault within which every object must reach its final state.
const SETTLE_TIMEOUT: Duration = Duration::from_mins(30);
/// The interval between two checks of the final state, and the time over which the rate of writes is measured.
const LOOK: Duration = Duration::from_secs(10);
/// The time at the end during which the cluster must be at rest; in a short simulation, a quarter of its simulated time
/// instead.
const REST: Duration = Duration::from_mins(1);
/// The maximum number of writes in ten seconds. Requests cannot cause more, since a burst of operations causes a few
/// hundred.
const MAX_WRITES: u64 = 2_500;
/// The maximum number of writes in ten seconds while each controller runs twice: the copies see different states, and
/// each may write as much as one.
const MAX_TWIN_WRITES: u64 = 2 * MAX_WRITES;
/// The maximum rate of writes, and of reconciles of one key, at rest, per second: four nodes renew their leases every
/// ten seconds and sometimes report their status, and a controller checks nodes every five seconds.
const MAX_WRITES_AT_REST: u64 = 1;
/// The prefix of a write's name among the steps that the livelock detector counts.
const WRITE: &str = "write of ";
/// The number of lines of the trace that are shown before a violation.
const TRACE_LINES: usize = 40;

/// The seed and the settings of one simulation.
#[derive(Clone, Debug)]
pub(crate) struct Simulation {
    /// The seed of all random choices.
    pub(crate) seed: u64,
    /// The simulated time. Operations and faults stop before its end ([`plan::active`]), so that all work ends within
    /// it; if some work takes longer, the simulation continues until that ends.
    pub(crate) lasts: Duration,
    /// The numbers of the plan's steps that are left out.
    pub(crate) without: BTreeSet<usize>,
}

/// The result of a simulation.
pub(crate) struct Outcome {
    violations: Vec<Violation>,
    /// The whole trace.
    pub(crate) trace: String,
    digest: String,
    steps: usize,
    faults: usize,
    requested: Duration,
    simulated: Duration,
    revision: u64,
}

impl Simulation {
    /// Runs the simulation. From here on, all randomness in this process derives from the seed.
    pub(crate) fn run(&self) -> std::io::Result<Outcome> {
        base::random::seed(self.seed);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
        Ok(runtime.block_on(self.simulate()))
    }

    async fn simulate(&self) -> Outcome {
        let started = Instant::now();
        let mut plan = Plan::draw(self.seed, self.lasts);
        let mut number = 0;
        plan.steps.retain(|_| {
            number += 1;
            !self.without.contains(&(number - 1))
        });
        let (world, checks) = (World::new(), Arc::new(Checks::default()));
        let pace = LivelockDetector::default();
        let (of_steps, of_world) = (pace.clone(), world.clone());
        // A process has at most one observer; it runs only this simulation, so none is set yet.
        base::step_observer::observe(move |step| of_steps.step(&of_world.trace, step));
        let has_ended = tokio::select! {
            () = pace.stuck() => false,
            () = self.play(&plan, started, &world, &checks, &pace) => true,
        };
        let revision = world.plane().map_or(0, |plane| plane.store.revision().0);
        let outcome = Outcome {
            violations: world.trace.violations(),
            trace: world.trace.text(),
            digest: world.trace.digest(),
            steps: plan.steps.len(),
            faults: plan.faults(),
            requested: self.lasts,
            simulated: started.elapsed(),
            revision,
        };
        // Endless work would never yield to a shutdown; it ends when the runtime is dropped.
        if has_ended {
            world.crash(false).await;
        }
        outcome
    }

    /// Executes the plan, and waits for the final state.
    async fn play(
        &self,
        plan: &Plan,
        started: Instant,
        world: &Arc<World>,
        checks: &Arc<Checks>,
        pace: &LivelockDetector,
    ) {
        if let Err(error) = world.start().await {
            world.trace.violation("start", error);
        }
        clients::prepare(world).await;
        if plan.begins_calm {
            checks.rollouts.begin_calm();
        }
        let mut running = tokio::task::JoinSet::new();
        let watching = [
            tokio::spawn(checks::observe(world.clone(), checks.clone())),
            tokio::spawn(checks::watch_identities(world.clone())),
            tokio::spawn(checks::read_selected(world.clone(), checks.clone())),
            tokio::spawn(watch_rate(world.clone())),
        ];
        for (at, step) in &plan.steps {
            tokio::time::sleep_until(started + *at).await;
            let (world, checks) = (world.clone(), checks.clone());
            match step.clone() {
                PlanStep::Operation(operation) => {
                    running.spawn(clients::operate(world, checks, operation));
                }
                PlanStep::Fault(fault) => {
                    running.spawn(faults::inject(world, checks, fault));
                }
            }
            while running.try_join_next().is_some() {}
        }
        tokio::time::sleep_until(started + plan::active(self.lasts)).await;
        running.shutdown().await;
        world.trace.record("the last fault is over");
        faults::heal_all(world).await;
        self.end(world, checks, pace).await;
        tokio::time::sleep_until(started + self.lasts).await;
        for watching in watching {
            watching.abort();
        }
    }

    /// Waits for the final state, and checks it.
    async fn end(&self, world: &World, checks: &Checks, pace: &LivelockDetector) {
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        let mut left;
        loop {
            let Some(plane) = world.plane() else { return };
            clients::tidy(&plane.api);
            tokio::time::sleep(LOOK).await;
            left = checks::unfinished(&plane.api);
            if left.is_empty() {
                left = checks::unowned(&plane.api);
            }
            if left.is_empty() || Instant::now() >= deadline {
                break;
            }
        }
        for what in left {
            world.trace.violation("everything ends", what);
        }
        let Some(plane) = world.plane() else { return };
        wait_quiescent(world, &plane, pace, REST.min(self.lasts / 4)).await;
        // At the end, each watcher's state must equal the API's.
        if plane.api.durable(plane.api.revision()).await.is_err() {
            world.trace.violation("durability", "the last writes do not become durable");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        if let Some(what) = differences(&plane.api, &plane.store, &plane.caches).await {
            world.trace.violation("the state agrees with itself", what);
        }
        for wrong in checks.selections.wrong(&plane.api.list(Kind::Pod, None).objects) {
            world.trace.violation("watch guarantees", wrong);
        }
        for kind in [Kind::Pod, Kind::ReplicaSet, Kind::Deployment, Kind::ConfigMap] {
            let delivered: Vec<_> =
                checks.history.objects(kind).iter().map(|o| (o.key(), o.revision())).collect();
            let there: Vec<_> =
                plane.api.list(kind, None).objects.iter().map(|o| (o.key(), o.revision())).collect();
            if delivered != there {
                let message = format!(
                    "a watcher of {} has {delivered:?}, but the cluster has {there:?}",
                    kind.info().name
                );
                world.trace.violation("watch guarantees", message);
            }
        }
    }
}

/// Checks the rate of writes for ever: controllers that contradict each other write endlessly, even if every object
/// seems to have its final state.
async fn watch_rate(world: Arc<World>) {
    loop {
        let before = world.plane().map(|plane| (plane.start_revision, plane.api.revision().0));
        let (twins, starts_before) = (world.has_twins(), world.twins_started());
        tokio::time::sleep(LOOK).await;
        let after = world.plane().map(|plane| (plane.start_revision, plane.api.revision().0));
        // A fault that ran each controller twice counts even if it started and ended within the interval.
        let twins = twins || world.twins_started() > starts_before;
        let most = if twins { MAX_TWIN_WRITES } else { MAX_WRITES };
        if let (Some((start, before)), Some((same, after))) = (before, after)
            && start == same
            && after.saturating_sub(before) > most
        {
            let message = format!("{} in {} s", counted(after - before, "write"), LOOK.as_secs());
            world.trace.violation("everything ends", message);
        }
    }
}

/// Checks that the cluster is quiescent in its final state: only nodes write, to renew leases and report their status,
/// and no key is reconciled repeatedly.
async fn wait_quiescent(world: &World, plane: &ControlPlane, pace: &LivelockDetector, lasts: Duration) {
    let before = plane.api.revision();
    let most = MAX_WRITES_AT_REST * lasts.as_secs().max(1);
    let taken = pace.count_steps(tokio::time::sleep(lasts)).await;
    let in_rest = format!("in {} s without operations", lasts.as_secs());
    let (writes, steps): (Vec<_>, Vec<_>) = taken.into_iter().partition(|(step, _)| step.starts_with(WRITE));
    for (step, times) in steps.iter().filter(|(_, times)| *times > most).take(NAMED) {
        world.trace.violation("everything ends", format!("{} {step} {in_rest}", counted(*times, "time")));
    }
    let total = (plane.api.revision().0 - before.0).saturating_sub(expired_events(&plane.api, before));
    if total > most {
        let kinds: Vec<String> = writes
            .iter()
            .take(NAMED)
            .map(|(step, times)| format!("{times} {}", &step[WRITE.len()..]))
            .collect();
        let message = format!("{} {in_rest}: {}", counted(total, "write"), kinds.join(", "));
        world.trace.violation("everything ends", message);
    }
}

/// Counts the events removed since the revision `since`: each expires an hour after its last update, without a request.
fn expired_events(api: &Api, since: Revision) -> u64 {
    let changes = api.watch(Kind::Event, since, Visibility::Applied).take();
    let is_removal = |change: &&Change| change.kind == ChangeKind::Deleted;
    // If the history no longer has all changes, the cluster was not at rest, so no writes are excused.
    changes.map_or(0, |changes| changes.iter().filter(is_removal).count() as u64)
}

impl Outcome {
    /// Returns true if a rule was broken.
    pub(crate) fn has_failed(&self) -> bool {
        !self.violations.is_empty()
    }

    /// Returns one line for the campaign and its user.
    pub(crate) fn summary(&self, seed: u64) -> String {
        let late = self.simulated.saturating_sub(self.requested).as_secs();
        let late =
            if late == 0 { String::new() } else { format!(" and {late} s until everything had ended") };
        format!(
            "seed {seed}: {}, {}, {}, {}{late}, {}, trace {}",
            counted(self.violations.len(), "violation"),
            counted(self.steps, "step"),
            counted(self.faults, "fault"),
            go_duration(self.requested),
            counted(self.revision, "write"),
            self.digest
        )
    }

    /// Returns the violations, after the lines of the trace that lead to the first.
    pub(crate) fn report(&self) -> String {
        let mut text = String::new();
        if let Some(first) = self.violations.first() {
            let line = usize::try_from(first.line).unwrap_or(usize::MAX);
            let lines: Vec<&str> = self.trace.lines().take(line).collect();
            for line in &lines[lines.len().saturating_sub(TRACE_LINES)..] {
                let _ = writeln!(text, "  {line}");
            }
        }
        for violation in &self.violations {
            let _ = writeln!(text, "VIOLATION of {}: {}", violation.rule, violation.message);
        }
        text
    }
}
