//! Errors of requests about the past.

use super::TIMEOUT;
use crate::action::error_text;

/// The failure of a request about the past.
#[derive(Debug)]
pub(super) struct HistoryError {
    /// The type of failure.
    pub(super) kind: HistoryErrorKind,
    /// The message: the server's if it sent one.
    pub(super) message: String,
}

/// The type of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HistoryErrorKind {
    /// The user has no permission (403).
    NotAllowed,
    /// The server does not have the resource (404).
    Absent,
    /// The revision is no longer retained (410).
    NotRecorded,
    /// Any other failure: a timeout, or an invalid response.
    Failed,
}

impl HistoryError {
    /// Creates the error for a response that cannot be parsed, or a request that cannot be built.
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self { kind: HistoryErrorKind::Failed, message: message.into() }
    }
}

impl From<HistoryError> for String {
    fn from(unanswered: HistoryError) -> Self {
        unanswered.message
    }
}

/// Waits for a response within the timeout; the error has the server's message.
pub(super) async fn answered<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, HistoryError> {
    let no = |no, words| Err(HistoryError { kind: no, message: words });
    match tokio::time::timeout(TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) if status.code == 410 => {
            no(HistoryErrorKind::NotRecorded, format!("that is no longer available: {}", status.message))
        }
        Ok(Err(error)) => {
            let code = match &error {
                kube::Error::Api(status) => status.code,
                _ => 0,
            };
            let kind = match code {
                403 => HistoryErrorKind::NotAllowed,
                404 => HistoryErrorKind::Absent,
                _ => HistoryErrorKind::Failed,
            };
            no(kind, error_text(&error))
        }
        Err(_) => {
            no(HistoryErrorKind::Failed, format!("no answer about the past within {} s", TIMEOUT.as_secs()))
        }
    }
}

/// Builds a GET request for a path.
pub(super) fn get(path: &str) -> Result<http::Request<Vec<u8>>, HistoryError> {
    http::Request::get(path).body(Vec::new()).map_err(|error| HistoryError::failed(error.to_string()))
}
