//! Checks that time passes and that work comes to rest. Endless work at one instant of simulated time stops the clock,
//! so that the simulation would never end. Work that repeats although there is nothing to do would occupy a processor
//! core of a real cluster.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base::count::counted;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::trace::Trace;

/// The maximum number of steps (reconciles and writes) at one instant. More steps mean endless work, since even the
/// start of a control plane takes only a few hundred.
const MAX_STEPS: u64 = 20_000;
/// The number of steps directly before the limit that are counted by name.
const LOOKED_AT: u64 = 1_000;
/// The number of most frequent steps that a violation names.
pub(super) const NAMED: usize = 5;

/// Counts the steps at one instant.
#[derive(Clone, Default)]
pub(super) struct LivelockDetector(Arc<DetectorState>);

#[derive(Default)]
struct DetectorState {
    state: Mutex<State>,
    /// The count of each step while [`LivelockDetector::count_steps`] runs; `None` at other times.
    counted: Mutex<Option<BTreeMap<String, u64>>>,
    stuck: Notify,
}

#[derive(Default)]
struct State {
    at: Option<Instant>,
    steps: u64,
    /// The count of each step among the last [`LOOKED_AT`] steps before the limit.
    last: BTreeMap<String, u64>,
}

impl LivelockDetector {
    /// Records a step at this instant. The step that reaches the limit is a violation, and wakes the caller of
    /// [`LivelockDetector::stuck`].
    pub(super) fn step(&self, trace: &Trace, step: fmt::Arguments<'_>) {
        if let Some(counted) = self.0.counted.lock().as_mut() {
            *counted.entry(step.to_string()).or_default() += 1;
        }
        let mut state = self.0.state.lock();
        let now = Instant::now();
        if state.at != Some(now) {
            *state = State { at: Some(now), ..State::default() };
        }
        state.steps += 1;
        if state.steps + LOOKED_AT > MAX_STEPS && state.steps <= MAX_STEPS {
            *state.last.entry(step.to_string()).or_default() += 1;
        }
        if state.steps == MAX_STEPS {
            trace.violation("everything ends", state.report());
            self.0.stuck.notify_one();
        }
    }

    /// Counts the steps during `meanwhile`; returns the most frequent first.
    pub(super) async fn count_steps(&self, meanwhile: impl Future<Output = ()>) -> Vec<(String, u64)> {
        *self.0.counted.lock() = Some(BTreeMap::new());
        meanwhile.await;
        let counted = self.0.counted.lock().take().unwrap_or_default();
        let mut taken: Vec<_> = counted.into_iter().collect();
        taken.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        taken
    }

    /// Waits until work at one instant reaches the limit, so that time no longer passes.
    pub(super) async fn stuck(&self) {
        self.0.stuck.notified().await;
    }
}

impl State {
    fn report(&self) -> String {
        let mut last: Vec<_> = self.last.iter().collect();
        last.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
        let named: Vec<String> = last
            .iter()
            .take(NAMED)
            .map(|(step, times)| format!("{} {step}", counted(**times, "time")))
            .collect();
        format!(
            "{} steps without progress of the simulated time; of the last {LOOKED_AT}: {}",
            self.steps,
            named.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A reconcile that requeues itself at once, so that the clock stands still.
    #[tokio::test(start_paused = true)]
    async fn a_reconcile_loop_at_one_instant_is_stopped_and_named_fault_3() {
        let (pace, trace) = (LivelockDetector::default(), Arc::new(Trace::new()));
        let (of_loop, of_trace) = (pace.clone(), trace.clone());
        let looping = tokio::spawn(async move {
            for number in 0_u64.. {
                of_loop.step(&of_trace, format_args!("replicaset open/web-{}", number % 2));
                tokio::task::yield_now().await;
            }
        });
        let ended = tokio::select! {
            () = pace.stuck() => false,
            () = tokio::time::sleep(Duration::from_secs(1)) => true,
        };
        looping.abort();
        let found = trace.violations();
        assert!(!ended && found.len() == 1, "{found:?}");
        let message = "20000 steps without progress of the simulated time; of the last 1000: 500 times replicaset open/web-0, 500 times \
                    replicaset open/web-1";
        assert_eq!((found[0].rule, found[0].message.as_str()), ("everything ends", message));
    }

    /// Time passes between two reconciles, so this is not a loop at one instant.
    #[tokio::test(start_paused = true)]
    async fn a_key_that_is_requeued_without_end_is_named_fault_3() {
        let (pace, trace) = (LivelockDetector::default(), Trace::new());
        pace.step(&trace, format_args!("job before"));
        let minute = async {
            for second in 0..60 {
                pace.step(&trace, format_args!("replicaset open/web"));
                pace.step(&trace, format_args!("replicaset open/web"));
                if second % 2 == 0 {
                    pace.step(&trace, format_args!("node a"));
                }
                tokio::time::advance(Duration::from_secs(1)).await;
            }
        };
        let taken = pace.count_steps(minute).await;
        assert_eq!(taken, [("replicaset open/web".to_owned(), 120), ("node a".to_owned(), 30)]);
        assert!(trace.violations().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_controller_that_pauses_is_not_stopped_fault_3() {
        let (pace, trace) = (LivelockDetector::default(), Trace::new());
        for number in 0..4 * MAX_STEPS {
            pace.step(&trace, format_args!("replicaset open/web"));
            if number % (MAX_STEPS - 1) == 0 {
                tokio::time::advance(Duration::from_millis(1)).await;
            }
        }
        assert!(trace.violations().is_empty());
    }
}
