//! Toasts: short messages in a corner of the screen.

use jiff::{SignedDuration, Timestamp};

use super::text::grouped;

/// The severity of a toast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Success.
    Done,
    /// Information.
    Note,
    /// A key has no meaning here: shown until the next key.
    UnknownKey,
    /// An unexpected state.
    Warning,
    /// Failure.
    Failed,
}

/// One message. Errors carry the server's complete message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toast {
    /// The severity, which selects colour and duration.
    pub severity: Severity,
    /// The message.
    pub text: String,
}

impl Toast {
    /// Creates a success message.
    pub fn done(text: impl Into<String>) -> Self {
        Self { severity: Severity::Done, text: text.into() }
    }

    /// Creates an informational message.
    pub fn info(text: impl Into<String>) -> Self {
        Self { severity: Severity::Note, text: text.into() }
    }

    /// Creates a message about a key without a meaning.
    pub fn unheard(text: impl Into<String>) -> Self {
        Self { severity: Severity::UnknownKey, text: text.into() }
    }

    /// Creates a warning.
    pub fn warning(text: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, text: text.into() }
    }

    /// Creates a failure message.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { severity: Severity::Failed, text: text.into() }
    }

    /// Creates a message about the amount of text that was copied.
    pub fn copied(text: &str) -> Self {
        Self::info(match text.lines().count() {
            ..=1 => "copied".to_owned(),
            lines => format!("copied {} lines", grouped(lines as u64)),
        })
    }

    /// Reports whether the toast states the result of an action.
    pub fn is_result(&self) -> bool {
        !matches!(self.severity, Severity::Note | Severity::UnknownKey)
    }

    /// Returns the time for which the toast is shown.
    pub(crate) fn lasts(&self) -> SignedDuration {
        match self.severity {
            Severity::Done | Severity::Note | Severity::UnknownKey => SignedDuration::from_secs(4),
            Severity::Warning | Severity::Failed => SignedDuration::from_secs(15),
        }
    }
}

/// The toasts now shown, each with its expiry.
#[derive(Debug, Default)]
pub struct Toasts(Vec<(Toast, Timestamp)>);

impl Toasts {
    /// Shows a toast; the same text twice is shown once.
    pub fn push(&mut self, toast: Toast, now: Timestamp) {
        let ends = now.saturating_add(toast.lasts()).unwrap_or(Timestamp::MAX);
        self.0.retain(|(old, _)| *old != toast);
        self.0.push((toast, ends));
        if self.0.len() > 4 {
            self.0.remove(0);
        }
    }

    /// Drops expired toasts; returns whether there were any.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        let before = self.0.len();
        self.0.retain(|(_, ends)| *ends > now);
        self.0.len() != before
    }

    /// Removes messages about keys without a meaning.
    pub fn dismiss_key_hint(&mut self) {
        self.0.retain(|(toast, _)| toast.severity != Severity::UnknownKey);
    }

    /// Removes failures and warnings.
    pub fn dismiss(&mut self) {
        self.0.retain(|(toast, _)| !matches!(toast.severity, Severity::Failed | Severity::Warning));
    }

    /// Iterates over the toasts, oldest first, with their expiry.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &(Toast, Timestamp)> {
        self.0.iter()
    }
}
