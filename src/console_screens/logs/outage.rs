//! The connection to the server, as all readers of a view see it: its loss is one line, not one of each reader.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use console_toolkit::log_line::LogLine;

/// The line about a lost connection.
pub(super) const LOST: &str = "no connection to the server; trying again";

/// Shared by the readers of one view.
#[derive(Clone, Debug, Default)]
pub(super) struct Outage(Arc<AtomicBool>);

impl Outage {
    /// Records a failed connection; returns the line to show unless another reader shows it already.
    pub(super) fn begin(&self) -> Option<LogLine> {
        let was_known = self.0.swap(true, Ordering::Relaxed);
        (!was_known).then(|| LogLine::note(&Arc::from(""), LOST))
    }

    /// Records that the server answered.
    pub(super) fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
