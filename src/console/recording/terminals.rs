//! Terminals in a recording: what each told, in the order in which they were opened.
//!
//! What was typed into them is in the recording as keys are. The terminal that is shown again answers to nobody: it tells
//! what it told then, when it did.

use std::collections::HashMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::context::ScreenId;
use crate::screen::terminal::pane::{Outcome, PaneEvent, StartProgress};

/// What a terminal told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum TerminalTold {
    /// It is opened: the next one of all.
    Began,
    /// Its debug container is on its way.
    Progress(StartProgress),
    /// It is open.
    Opened { container: String, tty: bool, stdin: bool },
    /// It printed this.
    Text(String),
    /// It printed what is no text, in base64.
    Bytes(String),
    /// It is over.
    Ended(Outcome),
}

impl From<&PaneEvent> for TerminalTold {
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

/// What one terminal told, and when.
pub(super) type Told = Vec<(Duration, PaneEvent)>;

/// Takes a line of a terminal; why it makes no sense.
pub(super) fn take(all: &mut Vec<Told>, at: Duration, id: u64, told: TerminalTold) -> Result<(), String> {
    let place = usize::try_from(id).unwrap_or(usize::MAX);
    let event = match told {
        TerminalTold::Began if place == all.len() => {
            all.push(Vec::new());
            return Ok(());
        }
        TerminalTold::Began => return Err(format!("terminal {id} is not the next one")),
        TerminalTold::Progress(progress) => PaneEvent::Progress(progress),
        TerminalTold::Opened { container, tty, stdin } => PaneEvent::Opened { container, tty, stdin },
        TerminalTold::Text(text) => PaneEvent::Output(text.into()),
        TerminalTold::Bytes(bytes) => {
            PaneEvent::Output(STANDARD.decode(bytes).map_err(|error| error.to_string())?.into())
        }
        TerminalTold::Ended(outcome) => PaneEvent::Ended(outcome),
    };
    all.get_mut(place).ok_or_else(|| format!("nobody opened terminal {id}"))?.push((at, event));
    Ok(())
}

/// Which terminal a screen has open.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    next: u64,
    of: HashMap<ScreenId, u64>,
}

impl Numbers {
    /// Of a screen that opens one now.
    pub(super) fn begin(&mut self, screen: ScreenId) -> u64 {
        let number = self.next;
        self.next += 1;
        self.of.insert(screen, number);
        number
    }

    /// Of a screen that has opened one.
    pub(super) fn of(&self, screen: ScreenId) -> Option<u64> {
        self.of.get(&screen).copied()
    }
}
