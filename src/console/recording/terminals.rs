//! Terminals in a recording: the events of each, in the order in which they were opened.
//!
//! Their input is recorded as keys. A replayed terminal ignores input: it repeats its recorded events at their times.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::connection_ids::append;
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
    let event = match recorded {
        TerminalEvent::Began => None,
        TerminalEvent::Progress(progress) => Some(PaneEvent::Progress(progress)),
        TerminalEvent::Opened { container, tty, stdin } => Some(PaneEvent::Opened { container, tty, stdin }),
        TerminalEvent::Text(text) => Some(PaneEvent::Output(text.into())),
        TerminalEvent::Bytes(bytes) => {
            let bytes = STANDARD.decode(bytes).map_err(|error| error.to_string())?;
            Some(PaneEvent::Output(bytes.into()))
        }
        TerminalEvent::Ended(outcome) => Some(PaneEvent::Ended(outcome)),
    };
    append(all, "terminal", at, id, event)
}
