//! What should be said of a request besides its answer, from wherever in the API it is said: to its author, and to the
//! audit log.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::audit::Trail;

/// No answer has room for more of them together, each counted as what is told of it among many.
const MAX_COLLECTED: usize = 4096;
/// What is told of one among many; Kubernetes' `truncateItemRunes`.
const TOLD_OF_MANY: usize = 256;

/// Takes what the author of a write should hear besides the answer, and what is to be noted of it. By default nobody
/// listens.
#[derive(Clone, Debug, Default)]
pub struct Remarks {
    heard: Option<Arc<Mutex<Vec<String>>>>,
    trail: Option<Trail>,
}

impl PartialEq for Remarks {
    /// When the same listens, or nobody.
    fn eq(&self, other: &Self) -> bool {
        match (&self.heard, &other.heard) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }
}

impl Eq for Remarks {}

impl Remarks {
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
    pub(crate) fn warn(&self, warnings: impl IntoIterator<Item = String>) {
        let Some(collected) = &self.heard else { return };
        let mut collected = collected.lock();
        let told = |warning: &String| warning.len().clamp(1, TOLD_OF_MANY);
        let mut bytes: usize = collected.iter().map(told).sum();
        for mut warning in warnings {
            if bytes >= MAX_COLLECTED {
                break;
            }
            // A webhook may say what it likes.
            warning.truncate(warning.floor_char_boundary(MAX_COLLECTED));
            if !collected.contains(&warning) {
                bytes += told(&warning);
                collected.push(warning);
            }
        }
    }

    /// Whether anybody listens.
    pub(crate) fn is_heard(&self) -> bool {
        self.heard.is_some()
    }

    /// The warnings that were collected.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        self.heard.as_ref().map(|collected| std::mem::take(&mut *collected.lock())).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_answer_has_room_for_is_not_kept_api_16() {
        let remarks = Remarks::heard();
        remarks.warn((0..100_000).map(|i| format!("{i} {}", "é".repeat(10_000))));
        let kept = remarks.take_warnings();
        assert_eq!(kept.len(), MAX_COLLECTED / TOLD_OF_MANY);
        assert!(kept.iter().all(|one| (MAX_COLLECTED - 1..=MAX_COLLECTED).contains(&one.len())));
        remarks.warn((0..100_000).map(|_| String::new()).chain(["said".into(), "said".into()]));
        assert_eq!(remarks.take_warnings(), ["", "said"]);
    }
}
