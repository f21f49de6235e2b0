//! The manifest of a static pod as it was read.

use serde_json::Value;

/// A manifest as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct StaticManifest {
    /// The file it came from.
    pub source: String,
    /// The parsed content, or the read error.
    pub content: Result<Value, String>,
}
