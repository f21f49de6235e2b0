//! Violations, printed as they are found and counted for the verdict.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;

use podium::cli::output::print_line;

/// A cheap handle to the findings.
#[derive(Clone)]
pub(super) struct Findings(Arc<Inner>);

struct Inner {
    started: Instant,
    violations: Mutex<Vec<String>>,
    checks: AtomicU64,
}

/// Maximum number of printed violations, because a single mistake may violate every later check.
const MAX_REPORTED: usize = 50;

impl Findings {
    /// Creates an empty record; printed times are relative to this moment.
    pub(super) fn new() -> Self {
        let (violations, checks) = (Mutex::default(), AtomicU64::new(0));
        Self(Arc::new(Inner { started: Instant::now(), violations, checks }))
    }

    /// Prints a line with the time.
    pub(super) fn record(&self, line: &str) {
        print_line(&format!("{:7.2} s  {line}", self.0.started.elapsed().as_secs_f64()));
    }

    /// Records a violation of a rule.
    pub(super) fn violation(&self, rule: &str, message: &str) {
        let text = format!("VIOLATION of {rule}: {message}");
        let mut violations = self.0.violations.lock();
        if violations.contains(&text) {
            return;
        }
        if violations.len() < MAX_REPORTED {
            self.record(&text);
        }
        violations.push(text);
    }

    /// Counts checks of a rule.
    pub(super) fn checked(&self, times: usize) {
        self.0.checks.fetch_add(times as u64, Ordering::Relaxed);
    }

    /// Number of checks.
    pub(super) fn checks(&self) -> u64 {
        self.0.checks.load(Ordering::Relaxed)
    }

    /// Number of violations.
    pub(super) fn violations(&self) -> usize {
        self.0.violations.lock().len()
    }
}
