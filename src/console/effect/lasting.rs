//! Work that has to come to its end although whoever asked for it is gone: what was made for a screen is taken away again.

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::TaskTracker;

/// The work of one cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Lasting {
    tasks: TaskTracker,
    ending: CancellationToken,
}

impl Lasting {
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }

    /// Resolves when the console is about to end, or to look at another cluster.
    pub(super) fn ending(&self) -> WaitForCancellationFutureOwned {
        self.ending.clone().cancelled_owned()
    }

    pub(super) fn end(&self) {
        self.ending.cancel();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Waits until there is no such work.
    pub(super) async fn over(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}
