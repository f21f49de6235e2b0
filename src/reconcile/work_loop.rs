//! Statistics for a loop without a work queue: its work under way, durations, rates and errors (CON-19).
//!
//! Each round of the loop is one [`LoopRound`]. [`LoopRound::ends`] records its result; a round dropped while its task panics
//! counts as a panic, and a cancelled one is not counted.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::stats::{ControllerStats, FinishedReconcile};
use api::Api;
use api::controller_status::{
    ControllerKeys, ControllerProbe, ControllerState, ControllerStatus, PauseTarget, QueuedKey,
    ReconcileRecord, ReconcileResult, StepError, Subsystem,
};
use base::clock::Clock;
use base::task::Tasks;

/// The reason why a loop without a work queue cannot be paused by a fault.
const NO_PAUSE: &str = "it cannot be paused: faults pause only controllers, the scheduler and kubelets";
/// The reason why a loop without a work queue cannot be stepped.
const NO_STEP: &str = "it has no queue of keys that could be reconciled one by one";

/// A loop that reports its status. It stays registered while this handle exists.
pub struct WorkLoop {
    subsystem: Subsystem,
    clock: Clock,
    tasks: Tasks,
    figures: ControllerStats<String>,
    // Locked only for single assignments.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The rounds under way: number, subject, and start on the monotonic clock.
    in_flight: Vec<(u64, String, Duration)>,
    next: u64,
    panics: u64,
    /// The loop has panicked, and no round has started since.
    is_down: bool,
}

impl WorkLoop {
    /// Registers a loop under this name; it runs in a task of `tasks`.
    pub fn start(api: &Api, name: &'static str, subsystem: Subsystem, tasks: &Tasks) -> Arc<Self> {
        let clock = api.clock().clone();
        let figures = ControllerStats::new(&clock);
        let state = Mutex::default();
        let this = Arc::new(Self { subsystem, clock, tasks: tasks.clone(), figures, state });
        let probe: Arc<dyn ControllerProbe> = this.clone();
        api.controller_runs(name, &probe);
        this
    }

    /// Starts a round about `subject`.
    pub fn begin(self: &Arc<Self>, subject: impl Into<String>) -> LoopRound {
        let (what, started) = (subject.into(), self.clock.monotonic());
        let mut state = self.state.lock();
        state.is_down = false;
        state.next += 1;
        let number = state.next;
        state.in_flight.push((number, what, started));
        LoopRound { of: self.clone(), number }
    }

    /// Runs `work` as a round that cannot fail.
    pub async fn round<T>(self: &Arc<Self>, subject: impl Into<String>, work: impl Future<Output = T>) -> T {
        let round = self.begin(subject);
        let done = work.await;
        round.ends(Ok::<(), &str>(()));
        done
    }
}

/// A round of a loop.
#[must_use = "the round's result must be recorded with `ends`"]
pub struct LoopRound {
    of: Arc<WorkLoop>,
    number: u64,
}

impl LoopRound {
    /// Ends the round and records its result.
    pub fn ends(self, result: Result<(), impl Display>) {
        let result = match result {
            Ok(()) => ReconcileResult::Done,
            Err(why) => ReconcileResult::Failed(why.to_string()),
        };
        self.take(result);
    }

    fn take(&self, result: ReconcileResult) {
        let Some((key, started)) = self.leave() else { return };
        let took = self.of.clock.monotonic().saturating_sub(started);
        self.of.figures.take(FinishedReconcile { key, waited: None, took, result });
    }

    fn leave(&self) -> Option<(String, Duration)> {
        let mut state = self.of.state.lock();
        let place = state.in_flight.iter().position(|(number, ..)| *number == self.number)?;
        let (_, what, started) = state.in_flight.remove(place);
        Some((what, started))
    }
}

impl Drop for LoopRound {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // The round was cancelled, or `ends` has removed it already.
            self.leave();
            return;
        }
        {
            let mut state = self.of.state.lock();
            state.panics += 1;
            state.is_down = true;
        }
        // The panic's message is in the log.
        self.take(ReconcileResult::Panicked("panicked".to_owned()));
    }
}

#[expect(clippy::ptr_arg, reason = "the figures' keys are Strings")]
fn queued_key(subject: &String) -> QueuedKey {
    QueuedKey { key: subject.clone(), object: None }
}

impl ControllerProbe for WorkLoop {
    fn status(&self) -> ControllerStatus {
        let now = self.clock.monotonic();
        let (panics, is_down, under_way, longest) = {
            let state = self.state.lock();
            let longest = state.in_flight.iter().map(|(_, _, started)| now.saturating_sub(*started)).max();
            (state.panics, state.is_down, state.in_flight.len(), longest)
        };
        let mut counts = vec![("under way", under_way as u64)];
        counts.extend(longest.map(|longest| ("seconds, the longest of them", longest.as_secs())));
        let state = match () {
            () if self.tasks.stopping().is_cancelled() => ControllerState::Stopped,
            () if self.tasks.is_paused() => ControllerState::Paused,
            () if is_down => ControllerState::Restarting,
            () => ControllerState::Running,
        };
        ControllerStatus {
            state,
            subsystem: self.subsystem,
            pause: PauseTarget::Never(NO_PAUSE),
            takes_no_step: Some(NO_STEP),
            workers: None,
            started_at: self.figures.started_at(),
            panics,
            queue: None,
            work: self.figures.status(queued_key),
            counts,
        }
    }

    fn keys(&self, most: usize) -> ControllerKeys {
        let now = self.clock.monotonic();
        let state = self.state.lock();
        let in_flight = state.in_flight.iter().take(most);
        let in_flight =
            in_flight.map(|(_, what, started)| (queued_key(what), now.saturating_sub(*started))).collect();
        drop(state);
        let (recent, errors) = self.figures.last(queued_key);
        ControllerKeys { in_flight, recent, errors, ..ControllerKeys::default() }
    }

    fn step(self: Arc<Self>, _: Option<String>) -> BoxFuture<'static, Result<ReconcileRecord, StepError>> {
        std::future::ready(Err(StepError::TakesNone(NO_STEP))).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_api::api;

    #[tokio::test(start_paused = true)]
    async fn a_loop_tells_what_it_does_how_long_and_what_went_wrong_con_19() {
        let api = api();
        let clock = api.clock().clone();
        let (tasks, of_loop) = (Tasks::new(), Tasks::new());
        let chores = WorkLoop::start(&api, "chores", Subsystem::Cluster, &of_loop);
        let controller = || api.controller("chores").expect("it is known").expect("it runs");
        assert_eq!(
            (controller().status().state, controller().status().queue),
            (ControllerState::Running, None)
        );
        let round = chores.begin("sweep");
        clock.sleep(Duration::from_secs(3)).await;
        let in_flight = controller().keys(10).in_flight;
        assert_eq!((in_flight[0].0.key.as_str(), in_flight[0].1.as_secs()), ("sweep", 3));
        let status = controller().status();
        assert_eq!(status.work.reconciles, 0);
        assert_eq!(status.counts, [("under way", 1), ("seconds, the longest of them", 3)]);
        round.ends(Err::<(), _>("no broom"));
        chores.round("dust", clock.sleep(Duration::from_secs(1))).await;
        // A cancelled round is not counted.
        drop(chores.begin("cancelled"));
        let work = controller().status().work;
        assert_eq!((work.reconciles, work.errors), (2, 1));
        let last = work.last_error.expect("it failed");
        assert_eq!((last.took.as_secs(), last.result), (3, ReconcileResult::Failed("no broom".into())));
        assert_eq!(controller().keys(10).recent[0].key.key, "dust");
        assert!(controller().keys(10).in_flight.is_empty());
        // The loop counts as restarting after a panic until its next round.
        let panics = chores.clone();
        tasks.spawn("chores", async move {
            let _round = panics.begin("worse");
            panic!("no sense");
        });
        clock.sleep(Duration::from_secs(1)).await;
        let status = controller().status();
        assert_eq!((status.state, status.panics, status.work.errors), (ControllerState::Restarting, 1, 2));
        chores.round("dust", async {}).await;
        assert_eq!(controller().status().state, ControllerState::Running);
        let refused = controller().step(None).await.unwrap_err();
        assert!(matches!(refused, StepError::TakesNone(_)));
        of_loop.stop().await;
        assert_eq!(controller().status().state, ControllerState::Stopped);
        assert_eq!(
            api.controller_statuses().get("chores"),
            Some(&None),
            "a stopped loop reports nothing more"
        );
        drop(chores);
        assert!(api.controller("chores").is_some_and(|probe| probe.is_none()));
        tasks.stop().await;
    }
}
