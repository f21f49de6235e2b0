//! The trace of a simulation: each event on a line with its virtual time, and the violations.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base::hex::hex;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// The maximum number of recorded violations; further ones rarely tell more.
const MAX_VIOLATIONS: usize = 20;

/// The trace of one simulation.
pub(super) struct Trace {
    started: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    text: String,
    lines: u64,
    violations: Vec<Violation>,
    reported: BTreeSet<String>,
}

/// One violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// The name of the rule.
    pub(super) rule: &'static str,
    /// A description of the violation.
    pub(super) message: String,
    /// The number of the violation's line in the trace.
    pub(super) line: u64,
}

impl Trace {
    /// Starts an empty trace at this instant.
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), state: Mutex::default() }
    }

    /// Adds a line with the virtual time.
    pub(super) fn record(&self, text: impl AsRef<str>) {
        self.state.lock().line(self.started, text.as_ref());
    }

    /// Records that a rule was broken; the same text is recorded only once.
    pub(super) fn violation(&self, rule: &'static str, message: impl Into<String>) {
        let message = message.into();
        let mut state = self.state.lock();
        if state.violations.len() < MAX_VIOLATIONS && state.reported.insert(format!("{rule}: {message}")) {
            state.line(self.started, &format!("VIOLATION {rule}: {message}"));
            let line = state.lines;
            state.violations.push(Violation { rule, message, line });
        }
    }

    pub(super) fn violations(&self) -> Vec<Violation> {
        self.state.lock().violations.clone()
    }

    pub(super) fn text(&self) -> String {
        self.state.lock().text.clone()
    }

    /// Returns a short hash of the trace, to compare two runs.
    pub(super) fn digest(&self) -> String {
        hex(Sha256::digest(self.state.lock().text.as_bytes())).chars().take(16).collect()
    }
}

impl State {
    fn line(&mut self, started: Instant, text: &str) {
        self.lines += 1;
        let _ = writeln!(self.text, "{:>11.3} {text}", started.elapsed().as_secs_f64());
    }
}
