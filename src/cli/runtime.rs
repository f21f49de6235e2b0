//! The runtime that every command runs on.

use std::time::Duration;

use anyhow::{Context, Result};

/// What still blocks a thread when all is over is left to the end of the process.
const LEFT_BEHIND: Duration = Duration::from_secs(1);

/// The runtime everything runs on.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")
}

/// Runs a command on it, and then nothing holds the process up.
pub(super) fn run_to_end(command: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = runtime()?;
    let outcome = runtime.block_on(command);
    runtime.shutdown_timeout(LEFT_BEHIND);
    outcome
}
