//! An answer about the past, or why there is none.

use super::PATIENCE;
use crate::action::error_text;

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Unanswered {
    /// What kind of no it is.
    pub(super) no: No,
    /// It in words, the server's where it said anything.
    pub(super) words: String,
}

/// What kind of no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum No {
    /// Whoever asks may not know (403).
    NotAllowed,
    /// The server has no such thing (404).
    Absent,
    /// It was so long ago that nobody knows any more (410).
    NotKept,
    /// Anything else: no answer in time, or one that is none.
    Failed,
}

impl Unanswered {
    /// Of an answer that cannot be read, or a question that cannot be asked.
    pub(super) fn failed(words: impl Into<String>) -> Self {
        Self { no: No::Failed, words: words.into() }
    }
}

impl From<Unanswered> for String {
    fn from(unanswered: Unanswered) -> Self {
        unanswered.words
    }
}

/// Waits for an answer, not for ever; what went wrong in the server's words.
pub(super) async fn answered<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Unanswered> {
    let no = |no, words| Err(Unanswered { no, words });
    match tokio::time::timeout(PATIENCE, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) if status.code == 410 => {
            no(No::NotKept, format!("that is not kept any more: {}", status.message))
        }
        Ok(Err(error)) => {
            let code = match &error {
                kube::Error::Api(status) => status.code,
                _ => 0,
            };
            let kind = match code {
                403 => No::NotAllowed,
                404 => No::Absent,
                _ => No::Failed,
            };
            no(kind, error_text(&error))
        }
        Err(_) => no(No::Failed, format!("no answer about the past within {} s", PATIENCE.as_secs())),
    }
}

/// A request for what is at a path.
pub(super) fn get(path: &str) -> Result<http::Request<Vec<u8>>, Unanswered> {
    http::Request::get(path).body(Vec::new()).map_err(|error| Unanswered::failed(error.to_string()))
}
