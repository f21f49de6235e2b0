//! The coarse health of objects, which selects glyph and colour everywhere.

/// The coarse health of an object; selects glyph and colour everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Health {
    /// Runs and is ready.
    Running,
    /// Is not ready yet: pending, creating, starting.
    Pending,
    /// Ended well.
    Succeeded,
    /// Starts and fails again and again: CrashLoopBackOff.
    Crashing,
    /// Ended badly or cannot start.
    Failed,
    /// Is being deleted.
    Terminating,
    /// Unknown state.
    Unknown,
}

impl Health {
    /// All values, in the overview's order.
    pub const ALL: [Self; 7] = [
        Self::Running,
        Self::Pending,
        Self::Succeeded,
        Self::Crashing,
        Self::Failed,
        Self::Terminating,
        Self::Unknown,
    ];

    /// Returns a glyph that carries the meaning without colour.
    pub fn glyph(self) -> &'static str {
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

    /// Returns a one-word description.
    pub fn label(self) -> &'static str {
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

    /// Reports whether the state needs the user's attention.
    pub fn is_fault(self) -> bool {
        matches!(self, Self::Crashing | Self::Failed | Self::Unknown)
    }
}
