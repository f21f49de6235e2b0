//! What the author of a request should hear besides its answer, from wherever in the API it is said.

use std::sync::Arc;

use parking_lot::Mutex;

/// No answer has room for more; see `http`'s limit of bytes.
const MAX_COLLECTED: usize = 4096;

/// Takes what the author of a write should hear besides the answer. By default nobody listens.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Option<Arc<Mutex<Vec<String>>>>);

impl PartialEq for Warnings {
    /// When the same listens, or nobody.
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }
}

impl Eq for Warnings {}

impl Warnings {
    /// For an author who listens.
    pub(crate) fn heard() -> Self {
        Self(Some(Arc::default()))
    }

    /// Adds those that are not there yet: a write that is tried again says the same again.
    pub(crate) fn extend(&self, warnings: impl IntoIterator<Item = String>) {
        let Some(collected) = &self.0 else { return };
        let mut collected = collected.lock();
        for warning in warnings {
            if collected.len() < MAX_COLLECTED && !collected.contains(&warning) {
                collected.push(warning);
            }
        }
    }

    /// Whether anybody listens.
    pub(crate) fn is_heard(&self) -> bool {
        self.0.is_some()
    }

    /// What was collected.
    pub(crate) fn take(&self) -> Vec<String> {
        self.0.as_ref().map(|collected| std::mem::take(&mut *collected.lock())).unwrap_or_default()
    }
}
