//! What is told of a walk.

use std::fmt;

use serde::Serialize;

/// A step of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Step {
    /// Who opens the connection.
    Source,
    /// What the name means.
    Name,
    /// Which service and port.
    Port,
    /// Who is behind the service.
    Endpoints,
    /// What network policies say.
    Policy,
    /// Who listens there.
    Listener,
    /// What becomes of a connection.
    Connection,
}

impl fmt::Display for Step {
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

/// How it stands with a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// Nothing is in the way here.
    Fine,
    /// This is in the way.
    Problem,
    /// Good to know; or it is not known.
    Note,
}

/// What was found at a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Where.
    pub step: Step,
    /// How it stands.
    pub state: State,
    /// In a sentence.
    pub text: String,
    /// More of it, a line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    pub(super) fn fine(step: Step, text: impl Into<String>) -> Self {
        Self { step, state: State::Fine, text: text.into(), details: Vec::new(), advice: None }
    }

    pub(super) fn note(step: Step, text: impl Into<String>) -> Self {
        Self { state: State::Note, ..Self::fine(step, text) }
    }

    pub(super) fn problem(step: Step, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { state: State::Problem, advice: Some(advice.into()), ..Self::fine(step, text) }
    }

    pub(super) fn with(self, details: Vec<String>) -> Self {
        Self { details, ..self }
    }
}

/// How it ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Whether a connection comes about, as far as it can be told.
    pub connected: bool,
    /// Why, in a sentence.
    pub reason: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// All that is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The pod that would connect.
    pub source: String,
    /// Whom it would connect to.
    pub destination: String,
    /// What was found, in the order of the way.
    pub findings: Vec<Finding>,
    /// The end.
    pub verdict: Verdict,
}

impl Report {
    /// The last line.
    pub fn last_line(&self) -> String {
        let Verdict { connected, reason, advice } = &self.verdict;
        let word = if *connected { "connected" } else { "not connected" };
        match advice {
            Some(advice) => format!("{word}: {reason}; {advice}"),
            None => format!("{word}: {reason}"),
        }
    }
}
