//! One attempt to schedule a pod.

use std::sync::Arc;
use std::time::Duration;

use crate::state::pod_info::PodInfo;

/// A pod taken from the queue; returned with `Queue::reject` or `Queue::fail` if it finds no node.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) pod: Arc<PodInfo>,
    /// The deadline of its binding, once started.
    pub(crate) bind_by: Option<Duration>,
    /// The number of failed attempts in a row.
    pub(crate) failures: u32,
    /// Its arrival number, which orders pods that sort equally.
    pub(crate) arrival: u64,
    /// The time it waited for its turn; `None` if it was tried early.
    pub(crate) waited: Option<Duration>,
}
