//! What was found, told as it is found and kept for the verdict.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::cli::output::say;

/// A cheap handle to all that was found.
#[derive(Clone)]
pub(super) struct Findings(Arc<Inner>);

struct Inner {
    begun: Instant,
    violations: Mutex<Vec<String>>,
    checks: AtomicU64,
}

/// So many are told; one mistake may be found at every look.
const TOLD: usize = 50;

impl Findings {
    /// None yet; times are told from now on.
    pub(super) fn new() -> Self {
        let (violations, checks) = (Mutex::default(), AtomicU64::new(0));
        Self(Arc::new(Inner { begun: Instant::now(), violations, checks }))
    }

    /// A line with the time.
    pub(super) fn tell(&self, line: &str) {
        say(&format!("{:7.2} s  {line}", self.0.begun.elapsed().as_secs_f64()));
    }

    /// A rule was broken.
    pub(super) fn violation(&self, rule: &str, what: &str) {
        let text = format!("VIOLATION of {rule}: {what}");
        let mut violations = self.0.violations.lock();
        if violations.contains(&text) {
            return;
        }
        if violations.len() < TOLD {
            self.tell(&text);
        }
        violations.push(text);
    }

    /// A rule was looked at so many times.
    pub(super) fn checked(&self, times: usize) {
        self.0.checks.fetch_add(times as u64, Ordering::Relaxed);
    }

    /// How many times rules were looked at.
    pub(super) fn checks(&self) -> u64 {
        self.0.checks.load(Ordering::Relaxed)
    }

    /// How many violations there are.
    pub(super) fn violations(&self) -> usize {
        self.0.violations.lock().len()
    }
}
