//! The runtime that every command runs on.

use std::time::Duration;

use anyhow::{Context, Result};

/// What still blocks a thread when all is over is left to the end of the process.
const LEFT_BEHIND: Duration = Duration::from_secs(1);

/// The runtime everything runs on.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")
}

/// That of a console without a cluster of its own: it draws on the thread that waits for it, and every other one keeps
/// memory of its own, on a machine with many processors a lot.
pub(super) fn console_runtime() -> Result<tokio::runtime::Runtime> {
    const READERS: usize = 2;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(READERS).enable_all().build();
    runtime.context("starting the runtime")
}

/// Runs a command on a runtime, and then nothing holds the process up.
pub(super) fn run_to_end(
    runtime: tokio::runtime::Runtime,
    command: impl Future<Output = Result<()>>,
) -> Result<()> {
    let outcome = runtime.block_on(command);
    runtime.shutdown_timeout(LEFT_BEHIND);
    outcome
}
