//! Assigns recorded events to attempts, connections and screens.

use std::collections::HashMap;

use super::connect_events::Contexts;
use console_data::context::ScreenId;
use console_data::resource::ClusterId;

/// The recorder's knowledge of other clusters and of port-forwards.
#[derive(Debug, Default)]
pub(super) struct ConnectionIds {
    pub(super) attempts: u64,
    /// The last attempt to join each cluster.
    pub(super) joining: HashMap<ClusterId, u64>,
    /// The last attempt to switch to a cluster.
    pub(super) going: Option<u64>,
    pub(super) connections: u64,
    /// The contexts that were read last, and the milliseconds since the start. They are written once a context is used
    /// or the contexts are shown.
    pub(super) contexts: Option<(u64, Contexts)>,
    pub(super) forwards: HashMap<ScreenId, u64>,
    pub(super) next_forwards: u64,
}

impl ConnectionIds {
    /// Returns the number of a new attempt.
    pub(super) fn attempt(&mut self) -> u64 {
        self.attempts += 1;
        self.attempts - 1
    }
}
