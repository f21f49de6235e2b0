//! Terminals in a recording: the events of each, in the order in which they were opened.
//!
//! Their input is recorded as keys. A replayed terminal ignores input: it repeats its recorded events at their times.

use std::collections::HashMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use console_data::context::ScreenId;
use console_operations::pane::{Outcome, PaneEvent, StartProgress};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum TerminalEvent {
    /// The terminal is opened; terminals are numbered in order.
    Began,
    /// The terminal's debug container is starting.
    Progress(StartProgress),
    /// The session is open in this container, with or without a TTY and an open stdin.
    Opened { container: String, tty: bool, stdin: bool },
    /// It printed text.
    Text(String),
    /// The terminal printed bytes that are not UTF-8, in base64.
    Bytes(String),
    /// It ended.
    Ended(Outcome),
}

impl From<&PaneEvent> for TerminalEvent {
    fn from(event: &PaneEvent) -> Self {
        match event {
            PaneEvent::Progress(progress) => Self::Progress(progress.clone()),
            PaneEvent::Opened { container, tty, stdin } => {
                Self::Opened { container: container.clone(), tty: *tty, stdin: *stdin }
            }
            PaneEvent::Output(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Self::Text(text.to_owned()),
                Err(_) => Self::Bytes(STANDARD.encode(bytes)),
            },
            PaneEvent::Ended(outcome) => Self::Ended(outcome.clone()),
        }
    }
}

/// The events of one terminal, with their times.
pub(super) type TerminalEvents = Vec<(Duration, PaneEvent)>;

/// Adds an event of a terminal; an error says why it is invalid.
pub(super) fn take(
    all: &mut Vec<TerminalEvents>,
    at: Duration,
    id: u64,
    recorded: TerminalEvent,
) -> Result<(), String> {
    let place = usize::try_from(id).unwrap_or(usize::MAX);
    let event = match recorded {
        TerminalEvent::Began if place == all.len() => {
            all.push(Vec::new());
            return Ok(());
        }
        TerminalEvent::Began => return Err(format!("terminal {id} is out of order")),
        TerminalEvent::Progress(progress) => PaneEvent::Progress(progress),
        TerminalEvent::Opened { container, tty, stdin } => PaneEvent::Opened { container, tty, stdin },
        TerminalEvent::Text(text) => PaneEvent::Output(text.into()),
        TerminalEvent::Bytes(bytes) => {
            PaneEvent::Output(STANDARD.decode(bytes).map_err(|error| error.to_string())?.into())
        }
        TerminalEvent::Ended(outcome) => PaneEvent::Ended(outcome),
    };
    all.get_mut(place).ok_or_else(|| format!("unknown terminal {id}"))?.push((at, event));
    Ok(())
}

/// The numbers of the terminals that screens have open.
#[derive(Debug, Default)]
pub(super) struct TerminalIds {
    next: u64,
    of: HashMap<ScreenId, u64>,
}

impl TerminalIds {
    /// Assigns a number to the terminal that a screen opens.
    pub(super) fn begin(&mut self, screen: ScreenId) -> u64 {
        let number = self.next;
        self.next += 1;
        self.of.insert(screen, number);
        number
    }

    /// Returns the number of the terminal that a screen has open.
    pub(super) fn of(&self, screen: ScreenId) -> Option<u64> {
        self.of.get(&screen).copied()
    }
}
