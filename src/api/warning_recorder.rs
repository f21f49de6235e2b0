//! Warnings and audit annotations, collected during a request from anywhere in the API: for the client, and
//! for the audit log.

use std::fmt::Debug;
use std::sync::Arc;

use parking_lot::Mutex;

/// The maximum size of all warnings of a response, in bytes; each warning counts as at most
/// `TRUNCATED_BYTES`.
const MAX_COLLECTED: usize = 4096;
/// The length to which a warning is cut if there are many; Kubernetes' `truncateItemRunes`.
const TRUNCATED_BYTES: usize = 256;

/// Receives the annotations of one request for the audit log.
pub trait AuditRecorder: Debug + Send + Sync {
    /// Adds an annotation; the first one with a key wins.
    fn annotate(&self, key: String, value: String);

    /// Adds an annotation that is recorded only at levels with bodies.
    fn annotate_in_detail(&self, key: String, value: String);
}

/// Collects warnings for the client and annotations for the audit log. By default it discards both.
#[derive(Clone, Debug, Default)]
pub struct WarningRecorder {
    collected: Option<Arc<Mutex<Vec<String>>>>,
    audit: Option<Arc<dyn AuditRecorder>>,
}

impl PartialEq for WarningRecorder {
    /// Two recorders are equal if they share a collector, or if neither has one.
    fn eq(&self, other: &Self) -> bool {
        match (&self.collected, &other.collected) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }
}

impl Eq for WarningRecorder {}

impl WarningRecorder {
    /// Collects warnings for a client.
    pub fn for_listener() -> Self {
        Self { collected: Some(Arc::default()), audit: None }
    }

    /// Returns the recorder with the receiver of the request's audit annotations.
    #[must_use]
    pub fn with_audit(self, audit: Option<Arc<dyn AuditRecorder>>) -> Self {
        Self { audit, ..self }
    }

    /// Returns the receiver of audit annotations, if the request is audited.
    pub(crate) fn audit(&self) -> Option<&dyn AuditRecorder> {
        self.audit.as_deref()
    }

    /// Adds warnings that are new: a retried write repeats its warnings.
    pub fn warn(&self, warnings: impl IntoIterator<Item = String>) {
        let Some(collected) = &self.collected else { return };
        let mut collected = collected.lock();
        let counted_bytes = |warning: &String| warning.len().clamp(1, TRUNCATED_BYTES);
        let mut bytes: usize = collected.iter().map(counted_bytes).sum();
        for mut warning in warnings {
            if bytes >= MAX_COLLECTED {
                break;
            }
            // The text of a webhook's warning is not under our control.
            warning.truncate(warning.floor_char_boundary(MAX_COLLECTED));
            if !collected.contains(&warning) {
                bytes += counted_bytes(&warning);
                collected.push(warning);
            }
        }
    }

    /// Returns true if warnings are collected.
    pub(crate) fn is_listening(&self) -> bool {
        self.collected.is_some()
    }

    /// Returns the warnings that were collected.
    pub fn take_warnings(&self) -> Vec<String> {
        self.collected.as_ref().map(|collected| std::mem::take(&mut *collected.lock())).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_beyond_the_response_limit_are_dropped_api_16() {
        let recorder = WarningRecorder::for_listener();
        recorder.warn((0..100_000).map(|i| format!("{i} {}", "é".repeat(10_000))));
        let warnings = recorder.take_warnings();
        assert_eq!(warnings.len(), MAX_COLLECTED / TRUNCATED_BYTES);
        assert!(warnings.iter().all(|one| (MAX_COLLECTED - 1..=MAX_COLLECTED).contains(&one.len())));
        recorder.warn((0..100_000).map(|_| String::new()).chain(["said".into(), "said".into()]));
        assert_eq!(recorder.take_warnings(), ["", "said"]);
    }
}
