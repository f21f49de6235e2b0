//! Signals that stop the process: SIGINT, SIGTERM, and SIGHUP after the terminal was closed (CLI-5).
//!
//! The first signal starts an orderly stop, the second one forces it. A separate thread guarantees that the second
//! signal ends this process even if everything else hangs: the thread shares nothing with the main runtime.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Time for the forced stop after the second signal, more than twice what it needs.
const FORCED: Duration = Duration::from_secs(8);

/// Exit code of a process that the signal thread has ended by force.
const FAILED: i32 = 1;

/// An action that the signal thread runs before it ends this process by force.
type ForcedExitHook = Box<dyn FnOnce() + Send>;

/// Waits for the next stop signal.
pub(super) struct StopSignals {
    signals: Signals,
    last_wish: Arc<Mutex<Option<ForcedExitHook>>>,
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl StopSignals {
    /// Installs handlers for the signals, whose default action (the end of the process) no longer applies.
    pub(super) fn new() -> std::io::Result<Self> {
        let last_wish: Arc<Mutex<Option<ForcedExitHook>>> = Arc::default();
        let exit_hook = last_wish.clone();
        std::thread::Builder::new().name("signals".into()).spawn(move || end_after_the_second(&exit_hook))?;
        Ok(Self { signals: Signals::new()?, last_wish })
    }

    /// Waits for the next signal and returns its name.
    pub(super) async fn next(&mut self) -> &'static str {
        self.signals.next().await
    }

    /// Sets the action to run first if this process has to be ended by force; replaces an earlier one.
    pub(super) fn before_an_end_by_force(&self, wish: impl FnOnce() + Send + 'static) {
        *self.last_wish.lock() = Some(Box::new(wish));
    }
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hang_up.recv() => {
                base::stdio::replace_dead();
                "SIGHUP"
            }
        }
    }
}

/// Ends the process some time after the second signal, unless it has ended by then.
fn end_after_the_second(last_wish: &Mutex<Option<ForcedExitHook>>) {
    // If this runtime cannot be created, signals still reach the main runtime.
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        let Ok(mut signals) = Signals::new() else { return };
        signals.next().await;
        let signal = signals.next().await;
        tokio::time::sleep(FORCED).await;
        tracing::error!("{signal} again: the remaining processes do not stop; killing them");
        if let Some(wish) = last_wish.lock().take() {
            wish();
        }
        std::process::exit(FAILED);
    });
}
