//! Records caught panics: their number and the last message, for each part of the program. A caught panic ends only the
//! part it happened in.
//!
//! The code that catches a panic notes it here; the cluster's self-check reports them.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

/// The most characters retained of a panic's message.
const MAX_CHARS: usize = 500;

/// The panics of one part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Panics {
    /// The number since the process started.
    pub count: u64,
    /// The last message.
    pub last: String,
}

/// A part that panicked: its type (`controller`, `task` …) and its name.
pub type PanicSource = (&'static str, &'static str);

/// A handle to the panics of a cluster.
///
/// Names are constants of the program, so there are never many.
#[derive(Clone, Debug)]
pub struct PanicLog {
    panics: Arc<Mutex<BTreeMap<PanicSource, Panics>>>,
    count: watch::Sender<u64>,
}

impl Default for PanicLog {
    fn default() -> Self {
        Self { panics: Arc::default(), count: watch::Sender::new(0) }
    }
}

impl PanicLog {
    /// Counts a panic of a part and logs it; returns its message.
    pub fn record(&self, part: PanicSource, panic: &(dyn Any + Send)) -> String {
        let text: String = panic_text(panic).chars().take(MAX_CHARS).collect();
        let count = {
            let mut panics = self.panics.lock();
            let panics = panics.entry(part).or_default();
            panics.count += 1;
            panics.last.clone_from(&text);
            panics.count
        };
        tracing::error!(part = part.0, name = part.1, count, "panicked: {text}");
        self.count.send_modify(|count| *count += 1);
        text
    }

    /// Returns all panics, by part.
    pub fn all(&self) -> BTreeMap<PanicSource, Panics> {
        self.panics.lock().clone()
    }

    /// Subscribes to new panics; the value is their total number.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }
}

/// Returns the message of a caught panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_string())
}
