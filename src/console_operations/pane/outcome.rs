//! The end of a terminal session, from the Status that the server sends.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde::{Deserialize, Serialize};

/// The outcome of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The command exited with this code.
    Exited(i32),
    /// The user detached; an attached container continues to run.
    Detached,
    /// The server closed the connection without a Status.
    Closed,
    /// The console that owned the session exited, which ended it.
    Lost,
    /// The session could not start, or broke; the server's complete message.
    Failed(String),
}

impl Outcome {
    /// Interprets the Status frame like `kubectl`: reason `NonZeroExitCode`, and a cause `ExitCode` with the number as
    /// its message.
    pub(crate) fn from_status(status: Option<&Status>) -> Self {
        let Some(status) = status else { return Self::Closed };
        if status.status.as_deref() == Some("Success") {
            return Self::Exited(0);
        }
        let message = status.message.clone().unwrap_or_default();
        if status.reason.as_deref() == Some("NonZeroExitCode") {
            let causes = status.details.as_ref().and_then(|details| details.causes.as_deref()).unwrap_or(&[]);
            let code = causes
                .iter()
                .filter(|cause| cause.reason.as_deref() == Some("ExitCode"))
                .find_map(|cause| cause.message.as_deref()?.trim().parse().ok());
            if let Some(code) = code {
                return Self::Exited(code);
            }
        }
        if message.is_empty() {
            return Self::Failed(status.reason.clone().unwrap_or_else(|| "the command failed".to_owned()));
        }
        Self::Failed(message)
    }

    /// Returns a line for the pane and the journal.
    pub fn text(&self) -> String {
        match self {
            Self::Exited(0) => "the command ended with exit code 0".to_owned(),
            Self::Exited(code) => match signal_name(*code) {
                Some(signal) => format!("command terminated with exit code {code} ({signal})"),
                None => format!("command terminated with exit code {code}"),
            },
            Self::Detached => "detached".to_owned(),
            Self::Closed => "the connection was closed".to_owned(),
            Self::Lost => "the session ended with its console".to_owned(),
            Self::Failed(message) => message.clone(),
        }
    }

    /// Returns true if nothing failed.
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Exited(0) | Self::Detached)
    }
}

/// Returns the signal behind an exit code of 128 + n, for common signals.
fn signal_name(code: i32) -> Option<&'static str> {
    Some(match code {
        129 => "SIGHUP",
        130 => "SIGINT",
        131 => "SIGQUIT",
        134 => "SIGABRT",
        137 => "SIGKILL",
        139 => "SIGSEGV",
        141 => "SIGPIPE",
        143 => "SIGTERM",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CON-8, EPH-2: the exit code is received and shown.
    #[test]
    fn the_status_frame_tells_the_exit_code() {
        let cases = [
            (r#"{"status":"Success"}"#, Outcome::Exited(0)),
            (
                r#"{"status":"Failure","reason":"NonZeroExitCode","message":"command terminated with non-zero exit code: 3","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#,
                Outcome::Exited(3),
            ),
            (
                r#"{"status":"Failure","reason":"InternalError","message":"container not found"}"#,
                Outcome::Failed("container not found".to_owned()),
            ),
            (r#"{"status":"Failure","reason":"Timeout"}"#, Outcome::Failed("Timeout".to_owned())),
            (
                r#"{"status":"Failure","reason":"NonZeroExitCode","message":"odd","details":{"causes":[]}}"#,
                Outcome::Failed("odd".to_owned()),
            ),
        ];
        for (json, expect) in cases {
            let status: Status = serde_json::from_str(json).unwrap();
            assert_eq!(Outcome::from_status(Some(&status)), expect, "{json}");
        }
        assert_eq!(Outcome::from_status(None), Outcome::Closed);
        assert_eq!(Outcome::Exited(137).text(), "command terminated with exit code 137 (SIGKILL)");
    }
}
