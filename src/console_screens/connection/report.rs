//! The report of a connection diagnosis, as JSON and as the screen uses it.

use serde::Deserialize;

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum State {
    Fine,
    Problem,
    Note,
}

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Finding {
    pub(super) step: String,
    pub(super) state: State,
    pub(super) text: String,
    #[serde(default)]
    pub(super) details: Vec<String>,
}

/// The overall result.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct ConnectionResult {
    pub(super) connected: bool,
    pub(super) reason: String,
    #[serde(default)]
    pub(super) advice: Option<String>,
}

/// The report of one diagnosis.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Report {
    pub(super) findings: Vec<Finding>,
    pub(super) verdict: ConnectionResult,
}

impl Report {
    /// Parses a report; the error is a message for the user.
    pub fn read(value: serde_json::Value) -> Result<Self, String> {
        base::json::from_value(value).map_err(|error| format!("cannot read the report: {error}"))
    }
}
