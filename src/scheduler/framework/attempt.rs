//! A pod that is being tried.

use std::sync::Arc;
use std::time::Duration;

use crate::state::pod_info::PodInfo;

/// A pod taken from the queue to be tried; given back with `Queue::reject` or `Queue::fail` when it
/// found no node.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// The pod.
    pub(crate) pod: Arc<PodInfo>,
    /// When its binding is given up, once it was begun.
    pub(crate) bind_by: Option<Duration>,
    /// Attempts that failed in a row.
    pub(crate) failures: u32,
    /// Its place among pods that sort alike.
    pub(crate) arrival: u64,
    /// How long it waited for its turn; none where it was tried before that.
    pub(crate) waited: Option<Duration>,
}
