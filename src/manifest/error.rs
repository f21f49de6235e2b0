//! The error of a manifest, and its position.

use std::fmt;
use std::sync::Arc;

/// A position in a text; both numbers count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub(crate) column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A manifest cannot be used. Displayed as `file:line:column: field: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// The file, or `-` for standard input.
    pub(crate) source: Arc<str>,
    /// The position in the source, if the error has one.
    pub position: Option<Position>,
    /// The field that the error is about, such as `spec.replicas`.
    pub field: Option<String>,
    /// The error, and the remedy.
    pub message: String,
}

impl ManifestError {
    /// Returns an error about a whole file.
    pub(super) fn of_file(source: &str, message: impl Into<String>) -> Self {
        Self { source: source.into(), position: None, field: None, message: message.into() }
    }

    pub(super) fn of_fault(source: &Arc<str>, (position, message): Fault) -> Self {
        Self::at(source, position, message)
    }

    /// Returns an error at a position.
    pub(super) fn at(source: &Arc<str>, position: Position, message: impl Into<String>) -> Self {
        Self { source: source.clone(), position: Some(position), field: None, message: message.into() }
    }
}

/// An error at a position of a text whose name is not known yet.
pub(super) type Fault = (Position, String);

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some(position) = self.position {
            write!(f, ":{position}")?;
        }
        if let Some(field) = &self.field {
            write!(f, ": {field}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ManifestError {}
