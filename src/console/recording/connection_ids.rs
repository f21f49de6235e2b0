//! Assigns recorded events to attempts, connections and screens.

use std::collections::HashMap;
use std::time::Duration;

use super::connect_events::Contexts;
use console_data::context::ScreenId;
use console_data::resource::ClusterId;

/// The recorder's knowledge of other clusters, of terminals and of port-forwards.
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
    pub(super) terminals: ScreenNumbers,
    pub(super) forwards: ScreenNumbers,
}

impl ConnectionIds {
    /// Returns the number of a new attempt.
    pub(super) fn attempt(&mut self) -> u64 {
        self.attempts += 1;
        self.attempts - 1
    }
}

/// The numbers of the terminals, or of the port-forwards, that screens have open.
#[derive(Debug, Default)]
pub(super) struct ScreenNumbers {
    next: u64,
    of: HashMap<ScreenId, u64>,
}

impl ScreenNumbers {
    /// Assigns the next number to a screen.
    pub(super) fn begin(&mut self, screen: ScreenId) -> u64 {
        let number = self.next;
        self.next += 1;
        self.of.insert(screen, number);
        number
    }

    /// Returns the last number of a screen.
    pub(super) fn of(&self, screen: ScreenId) -> Option<u64> {
        self.of.get(&screen).copied()
    }
}

/// Adds an event to those of this number; `None` begins the events of the next number. An error says why it is invalid.
pub(super) fn append<T>(
    all: &mut Vec<Vec<(Duration, T)>>,
    of: &str,
    at: Duration,
    id: u64,
    event: Option<T>,
) -> Result<(), String> {
    let place = usize::try_from(id).unwrap_or(usize::MAX);
    match event {
        None if place == all.len() => all.push(Vec::new()),
        None => return Err(format!("{of} {id} is out of order")),
        Some(event) => all.get_mut(place).ok_or_else(|| format!("unknown {of} {id}"))?.push((at, event)),
    }
    Ok(())
}
