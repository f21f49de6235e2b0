//! The observed events and actions, line by line with their virtual time, and the violations.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// After so many violations nothing new is learned.
const MOST_VIOLATIONS: usize = 20;

/// The trace of one simulation.
pub(super) struct Trace {
    begun: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    text: String,
    lines: u64,
    violations: Vec<Violation>,
    told: BTreeSet<String>,
}

/// A rule was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// The name of the rule.
    pub(super) rule: &'static str,
    /// By what.
    pub(super) what: String,
    /// The line of the trace.
    pub(super) line: u64,
}

impl Trace {
    /// Begins now.
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), state: Mutex::default() }
    }

    /// Something happened.
    pub(super) fn note(&self, text: impl AsRef<str>) {
        self.state.lock().line(self.begun, text.as_ref());
    }

    /// Records a violation of a rule; the same message only once.
    pub(super) fn violation(&self, rule: &'static str, what: impl Into<String>) {
        let what = what.into();
        let mut state = self.state.lock();
        if state.violations.len() < MOST_VIOLATIONS && state.told.insert(format!("{rule}: {what}")) {
            state.line(self.begun, &format!("VIOLATION {rule}: {what}"));
            let line = state.lines;
            state.violations.push(Violation { rule, what, line });
        }
    }

    /// The violations.
    pub(super) fn violations(&self) -> Vec<Violation> {
        self.state.lock().violations.clone()
    }

    /// The whole text.
    pub(super) fn text(&self) -> String {
        self.state.lock().text.clone()
    }

    /// Tells two traces apart.
    pub(super) fn digest(&self) -> String {
        format!("{:x}", Sha256::digest(self.state.lock().text.as_bytes())).chars().take(16).collect()
    }
}

impl State {
    fn line(&mut self, begun: Instant, text: &str) {
        self.lines += 1;
        let _ = writeln!(self.text, "{:>11.3} {text}", begun.elapsed().as_secs_f64());
    }
}
