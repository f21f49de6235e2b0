//! Writes of the cluster's own objects at start. A full disk must not end a start: users free space by deletions, which
//! need a server.

use std::time::Duration;

use api::ApiError;
use base::task::Tasks;
use store::Store;

/// The pause between two tries.
const RETRY: Duration = Duration::from_secs(1);

/// Performs writes at start.
pub(super) struct StartupWrites {
    pub(super) store: Store,
    /// The tasks in which refused writes are retried.
    pub(super) tasks: Tasks,
}

impl StartupWrites {
    /// Performs a write that may be repeated. While the disk refuses writes, a task retries it until it succeeds, and
    /// the start continues without it.
    pub(super) fn perform(
        &self,
        objects: &'static str,
        write: impl Fn() -> Result<(), ApiError> + Send + 'static,
    ) -> Result<(), ApiError> {
        // If the disk has free space again since the refusal, the write is repeated at once.
        let Err(error) = write().or_else(|error| match self.store.refuses_writes() {
            Some(_) => Err(error),
            None => write(),
        }) else {
            return Ok(());
        };
        if self.store.refuses_writes().is_none() {
            return Err(error);
        }
        tracing::warn!("{objects}: {error}; the write is retried until there is space");
        self.tasks.spawn("startup writes", async move {
            loop {
                tokio::time::sleep(RETRY).await;
                match write() {
                    Ok(()) => break tracing::info!("{objects}: written"),
                    Err(error) => tracing::debug!("{objects}: {error}"),
                }
            }
        });
        Ok(())
    }
}
