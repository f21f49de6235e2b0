//! The manifest of a static pod as it was read.

use serde_json::Value;

/// A manifest as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct StaticManifest {
    /// The file it came from.
    pub source: String,
    /// What it says, or why it could not be read.
    pub content: Result<Value, String>,
}
