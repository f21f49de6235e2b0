//! Toasts: short notices in a corner of the screen.

use jiff::{SignedDuration, Timestamp};

use super::text::grouped;

/// How a toast is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// It worked.
    Done,
    /// Worth knowing.
    Note,
    /// A key meant nothing: worth knowing until the next key.
    Unheard,
    /// It is not as one would take it to be.
    Warning,
    /// It did not work.
    Failed,
}

/// One piece of news. Errors carry the server's message whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toast {
    /// How it is meant.
    pub(crate) severity: Severity,
    /// What it says.
    pub(crate) text: String,
}

impl Toast {
    /// It worked.
    pub(crate) fn done(text: impl Into<String>) -> Self {
        Self { severity: Severity::Done, text: text.into() }
    }

    /// Worth knowing.
    pub fn note(text: impl Into<String>) -> Self {
        Self { severity: Severity::Note, text: text.into() }
    }

    /// A key meant nothing.
    pub(crate) fn unheard(text: impl Into<String>) -> Self {
        Self { severity: Severity::Unheard, text: text.into() }
    }

    /// It is not as one would take it to be.
    pub(crate) fn warning(text: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, text: text.into() }
    }

    /// It did not work.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { severity: Severity::Failed, text: text.into() }
    }

    /// So much was copied.
    pub(crate) fn copied(text: &str) -> Self {
        Self::note(match text.lines().count() {
            ..=1 => "copied".to_owned(),
            lines => format!("copied {} lines", grouped(lines as u64)),
        })
    }

    /// Whether it tells how something ended.
    pub(crate) fn is_an_end(&self) -> bool {
        !matches!(self.severity, Severity::Note | Severity::Unheard)
    }

    /// How long it stays.
    pub(crate) fn lasts(&self) -> SignedDuration {
        match self.severity {
            Severity::Done | Severity::Note | Severity::Unheard => SignedDuration::from_secs(4),
            Severity::Warning | Severity::Failed => SignedDuration::from_secs(15),
        }
    }
}

/// The toasts now shown, each with its end.
#[derive(Debug, Default)]
pub struct Toasts(Vec<(Toast, Timestamp)>);

impl Toasts {
    /// Shows one more; the same text twice is shown once.
    pub(crate) fn push(&mut self, toast: Toast, now: Timestamp) {
        let ends = now.saturating_add(toast.lasts()).unwrap_or(Timestamp::MAX);
        self.0.retain(|(old, _)| *old != toast);
        self.0.push((toast, ends));
        if self.0.len() > 4 {
            self.0.remove(0);
        }
    }

    /// Drops those whose time is over; says whether any was.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        let before = self.0.len();
        self.0.retain(|(_, ends)| *ends > now);
        self.0.len() != before
    }

    /// Puts away what was told of a key that meant nothing.
    pub(crate) fn heard(&mut self) {
        self.0.retain(|(toast, _)| toast.severity != Severity::Unheard);
    }

    /// Puts the failures and warnings away.
    pub(crate) fn dismiss(&mut self) {
        self.0.retain(|(toast, _)| !matches!(toast.severity, Severity::Failed | Severity::Warning));
    }

    /// Oldest first, with their ends.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &(Toast, Timestamp)> {
        self.0.iter()
    }
}
