//! Work that must be completed after the screen that started it is closed: the removal of objects created for a screen.

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::TaskTracker;

/// The detached work of one cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct DetachedTasks {
    tasks: TaskTracker,
    ending: CancellationToken,
}

impl DetachedTasks {
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }

    /// Resolves when the console is about to end, or to switch to another cluster.
    pub(super) fn ending(&self) -> WaitForCancellationFutureOwned {
        self.ending.clone().cancelled_owned()
    }

    pub(super) fn end(&self) {
        self.ending.cancel();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Waits until all detached work is complete.
    pub(super) async fn wait_until_done(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}
