//! Panics that were caught, so that what panicked costs itself and nobody else: how many of which part, and what the last
//! one said.
//!
//! Whoever catches one notes it here; the cluster's check of itself tells of them.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

/// Characters of what a panic said that are kept.
const MOST: usize = 500;

/// The panics of one part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Panics {
    /// How many there were since the process began.
    pub count: u64,
    /// What the last one said.
    pub last: String,
}

/// A part that panicked: what it is (`controller`, `task` …), and its name.
pub type Part = (&'static str, &'static str);

/// The panics of a cluster; a handle to them.
///
/// Names are words of the program, so that there are never many.
#[derive(Clone, Debug)]
pub struct Contained {
    panics: Arc<Mutex<BTreeMap<Part, Panics>>>,
    count: watch::Sender<u64>,
}

impl Default for Contained {
    fn default() -> Self {
        Self { panics: Arc::default(), count: watch::Sender::new(0) }
    }
}

impl Contained {
    /// Counts a panic of a part and writes it to the log; what it said.
    pub fn note(&self, part: Part, panic: &(dyn Any + Send)) -> String {
        let text: String = panic_text(panic).chars().take(MOST).collect();
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

    /// All of them, by part.
    pub fn all(&self) -> BTreeMap<Part, Panics> {
        self.panics.lock().clone()
    }

    /// Hears of new ones: it holds how many there were in all.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }
}

/// What a caught panic said.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_string())
}
