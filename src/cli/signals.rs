//! Signals that ask to stop: SIGINT, SIGTERM, and SIGHUP when the terminal was closed (CLI-5).

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for the next request to stop.
pub(super) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl StopSignals {
    /// Takes over the signals; from here on none of them ends the process by itself.
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The name of the next signal.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hang_up.recv() => {
                crate::base::streams::replace_dead();
                "SIGHUP"
            }
        }
    }
}
