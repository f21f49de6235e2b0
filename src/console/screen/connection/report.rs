//! A report as it comes, and as the screen has it.

use serde::Deserialize;

/// How it stands with a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum State {
    Fine,
    Problem,
    Note,
}

/// What was found at a step.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Finding {
    pub(super) step: String,
    pub(super) state: State,
    pub(super) text: String,
    #[serde(default)]
    pub(super) details: Vec<String>,
}

/// How it ends.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Verdict {
    pub(super) connected: bool,
    pub(super) reason: String,
    #[serde(default)]
    pub(super) advice: Option<String>,
}

/// All that is told.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Report {
    pub(super) findings: Vec<Finding>,
    pub(super) verdict: Verdict,
}

impl Report {
    /// Reads what was answered.
    pub fn read(value: serde_json::Value) -> Result<Self, String> {
        serde_json::from_value(value).map_err(|error| format!("the report cannot be read: {error}"))
    }
}
