//! The report about a connection.

use std::fmt;

use serde::Serialize;

/// A step on the connection's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum WalkStep {
    /// The pod that opens the connection.
    Source,
    /// Name resolution.
    Name,
    /// The service and its port.
    Port,
    /// The service's endpoints.
    Endpoints,
    /// Network policies.
    Policy,
    /// The listening process in the destination pod.
    Listener,
    /// A test connection.
    Connection,
}

impl fmt::Display for WalkStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Source => "source",
            Self::Name => "name",
            Self::Port => "port",
            Self::Endpoints => "endpoints",
            Self::Policy => "policy",
            Self::Listener => "listener",
            Self::Connection => "connection",
        })
    }
}

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// No problem at this step.
    Fine,
    /// This step prevents the connection.
    Problem,
    /// Additional information, or the state is unknown.
    Note,
}

/// The finding of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The step.
    pub step: WalkStep,
    /// Its state.
    pub state: State,
    /// A sentence about it.
    pub text: String,
    /// Details, one line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    /// Advice to the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    pub(super) fn fine(step: WalkStep, text: impl Into<String>) -> Self {
        Self { step, state: State::Fine, text: text.into(), details: Vec::new(), advice: None }
    }

    pub(super) fn note(step: WalkStep, text: impl Into<String>) -> Self {
        Self { state: State::Note, ..Self::fine(step, text) }
    }

    pub(super) fn problem(step: WalkStep, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { state: State::Problem, advice: Some(advice.into()), ..Self::fine(step, text) }
    }

    pub(super) fn with(self, details: Vec<String>) -> Self {
        Self { details, ..self }
    }
}

/// The result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionResult {
    /// The connection succeeds, as far as can be determined.
    pub connected: bool,
    /// The reason, as a sentence.
    pub reason: String,
    /// Advice to the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// The complete report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The pod that would connect.
    pub source: String,
    /// The destination.
    pub destination: String,
    /// The findings in the order of the path.
    pub findings: Vec<Finding>,
    /// The result.
    pub verdict: ConnectionResult,
}

impl Report {
    /// Returns the summary line.
    pub fn last_line(&self) -> String {
        let ConnectionResult { connected, reason, advice } = &self.verdict;
        let status = if *connected { "connected" } else { "not connected" };
        match advice {
            Some(advice) => format!("{status}: {reason}; {advice}"),
            None => format!("{status}: {reason}"),
        }
    }
}
