//! The async runtime of the commands.

use std::time::Duration;

use anyhow::{Context, Result};

/// Time to wait at the end for blocking threads; the exit of the process ends those that still block.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The runtime of every command except `podium console`.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")
}

/// The runtime of a console without a cluster of its own. Few workers suffice, because the console draws on the thread
/// that waits for it, and each further worker retains memory of its own, which adds up on a machine with many
/// processors.
pub(super) fn console_runtime() -> Result<tokio::runtime::Runtime> {
    const READERS: usize = 2;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(READERS).enable_all().build();
    runtime.context("starting the runtime")
}

/// Runs a command on a runtime. Threads that still block do not delay the end of the process.
pub(super) fn run_to_end(
    runtime: tokio::runtime::Runtime,
    command: impl Future<Output = Result<()>>,
) -> Result<()> {
    let outcome = runtime.block_on(command);
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    outcome
}
