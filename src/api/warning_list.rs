//! What should be said of a request besides its answer, from wherever in the API it is said: to its author, and to the
//! audit log.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::audit::Trail;

/// No answer has room for more; see `http`'s limit of bytes.
const MAX_COLLECTED: usize = 4096;

/// Takes what the author of a write should hear besides the answer, and what is to be noted of it. By default nobody
/// listens.
#[derive(Clone, Debug, Default)]
pub struct Warnings {
    heard: Option<Arc<Mutex<Vec<String>>>>,
    trail: Option<Trail>,
}

impl PartialEq for Warnings {
    /// When the same listens, or nobody.
    fn eq(&self, other: &Self) -> bool {
        match (&self.heard, &other.heard) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }
}

impl Eq for Warnings {}

impl Warnings {
    /// For an author who listens.
    pub(crate) fn heard() -> Self {
        Self { heard: Some(Arc::default()), trail: None }
    }

    /// The same, of a request that is noted.
    #[must_use]
    pub(crate) fn noted(self, trail: Option<Trail>) -> Self {
        Self { trail, ..self }
    }

    /// What is noted of the request, where it is.
    pub(crate) fn trail(&self) -> Option<&Trail> {
        self.trail.as_ref()
    }

    /// Adds those that are not there yet: a write that is tried again says the same again.
    pub(crate) fn extend(&self, warnings: impl IntoIterator<Item = String>) {
        let Some(collected) = &self.heard else { return };
        let mut collected = collected.lock();
        for warning in warnings {
            if collected.len() < MAX_COLLECTED && !collected.contains(&warning) {
                collected.push(warning);
            }
        }
    }

    /// Whether anybody listens.
    pub(crate) fn is_heard(&self) -> bool {
        self.heard.is_some()
    }

    /// What was collected.
    pub(crate) fn take(&self) -> Vec<String> {
        self.heard.as_ref().map(|collected| std::mem::take(&mut *collected.lock())).unwrap_or_default()
    }
}
