//! What a recorder has to know to say of which attempt, connection or screen something is that is told.

use std::collections::HashMap;

use super::reached::Contexts;
use crate::context::ScreenId;
use crate::resource::ClusterId;

/// What a recorder knows of other clusters and of port-forwards.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) attempts: u64,
    /// The last attempt to look at a cluster.
    pub(super) joining: HashMap<ClusterId, u64>,
    /// The last attempt to go to one.
    pub(super) going: Option<u64>,
    pub(super) connections: u64,
    /// The contexts as they were read last, and when: written down once one is wanted or they are shown.
    pub(super) contexts: Option<(u64, Contexts)>,
    pub(super) forwards: HashMap<ScreenId, u64>,
    pub(super) next_forwards: u64,
}

impl Known {
    /// A number for an attempt.
    pub(super) fn attempt(&mut self) -> u64 {
        self.attempts += 1;
        self.attempts - 1
    }
}
