//! How objects are, coarsely: what decides glyph and colour everywhere.

/// How something is, coarsely: decides glyph and colour everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Health {
    /// Runs and is ready.
    Running,
    /// Is on its way: pending, creating, starting, not yet ready.
    Pending,
    /// Ended well.
    Succeeded,
    /// Comes and goes: CrashLoopBackOff.
    Crashing,
    /// Ended badly or cannot start.
    Failed,
    /// Is being deleted.
    Terminating,
    /// Nobody knows.
    Unknown,
}

impl Health {
    /// All, in the order the overview shows them.
    pub(crate) const ALL: [Self; 7] = [
        Self::Running,
        Self::Pending,
        Self::Succeeded,
        Self::Crashing,
        Self::Failed,
        Self::Terminating,
        Self::Unknown,
    ];

    /// One glyph that says it without colour.
    pub(crate) fn glyph(self) -> &'static str {
        match self {
            Self::Running => "●",
            Self::Pending => "◐",
            Self::Succeeded => "✔",
            Self::Crashing => "↻",
            Self::Failed => "✖",
            Self::Terminating => "◌",
            Self::Unknown => "?",
        }
    }

    /// One word that says it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Pending => "Pending",
            Self::Succeeded => "Succeeded",
            Self::Crashing => "CrashLoop",
            Self::Failed => "Error",
            Self::Terminating => "Terminating",
            Self::Unknown => "Unknown",
        }
    }

    /// Whether someone should look at it.
    pub(crate) fn is_fault(self) -> bool {
        matches!(self, Self::Crashing | Self::Failed | Self::Unknown)
    }
}
