//! The async runtime of the commands.

use std::ops::Deref;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context, Result};

/// Time to wait at the end for blocking threads; the exit of the process ends those that still block.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// A runtime whose code to wait for a future is compiled once and not for each command.
#[derive(Debug)]
pub struct Runtime(tokio::runtime::Runtime);

impl Runtime {
    /// Runs a future to its end.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let mut output = None;
        self.run(Box::pin(async { output = Some(future.await) }));
        output.expect("the future ran to its end")
    }

    fn run(&self, future: Pin<Box<dyn Future<Output = ()> + '_>>) {
        self.0.block_on(future);
    }

    /// Shuts the runtime down, but waits no longer than this for threads that block.
    pub fn shutdown_timeout(self, timeout: Duration) {
        self.0.shutdown_timeout(timeout);
    }
}

impl Deref for Runtime {
    type Target = tokio::runtime::Runtime;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// The runtime of every command except `podium console`.
pub fn runtime() -> Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map(Runtime).context("starting the runtime")
}

/// The runtime of a console without a cluster of its own. Few workers suffice, because the console draws on the thread
/// that waits for it, and each further worker retains memory of its own, which adds up on a machine with many
/// processors.
pub(super) fn console_runtime() -> Result<Runtime> {
    const READERS: usize = 2;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(READERS).enable_all().build();
    runtime.map(Runtime).context("starting the runtime")
}

/// Runs a command on a runtime. Threads that still block do not delay the end of the process.
pub(super) fn run_to_end(runtime: Runtime, command: impl Future<Output = Result<()>>) -> Result<()> {
    let outcome = runtime.block_on(command);
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    outcome
}
