//! The watches that clients have open, which end when a test wants them to.

use axum::body::{Body, BodyDataStream};
use axum::response::Response;
use bytes::Bytes;
use futures::StreamExt;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::oneshot;

use api::http::Asked;

use super::requests::Requests;
use super::status::status;

/// How a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// As by time, or with its connection: the client goes on where it was.
    Closed,
    /// With `410 Gone`: the client has to list again.
    Expired,
}

/// A watch that is open.
struct Open {
    asked: Asked,
    end: oneshot::Sender<Ending>,
}

/// All that are open.
#[derive(Default)]
pub(super) struct Watches(Mutex<Vec<Open>>);

impl Watches {
    /// The answer to a request to watch, which can be ended from now on.
    pub(super) fn follow(&self, asked: Asked, response: Response) -> Response {
        // Refused, or a WebSocket's handshake.
        if response.status() != StatusCode::OK {
            return response;
        }
        let tells_errors = is_json(response.headers());
        let (end, ending) = oneshot::channel();
        let mut all = self.0.lock();
        all.retain(|open| !open.end.is_closed());
        all.push(Open { asked, end });
        response.map(|body| {
            let stream = body.into_data_stream();
            let followed =
                Followed { stream, ending: Some(ending), decided: None, whole: true, tells_errors };
            Body::from_stream(futures::stream::unfold(followed, Followed::next))
        })
    }

    /// Ends the open watches among these requests, and says how many those are.
    pub(super) fn end(&self, requests: &Requests, ending: Ending) -> usize {
        let mut all = self.0.lock();
        all.retain(|open| !open.end.is_closed());
        let ended = all.extract_if(.., |open| requests.matches(&open.asked));
        ended.filter_map(|open| open.end.send(ending).ok()).count()
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.starts_with("application/json")
}

/// What is left of a watch's answer.
struct Followed {
    stream: BodyDataStream,
    /// None once it was heard, or nobody can say it any more.
    ending: Option<oneshot::Receiver<Ending>>,
    /// How it ends, as soon as the event under way is sent whole.
    decided: Option<Ending>,
    whole: bool,
    tells_errors: bool,
}

impl Followed {
    /// The next piece: the server's, or the end.
    async fn next(mut self) -> Option<(Result<Bytes, axum::Error>, Self)> {
        loop {
            if self.whole
                && let Some(ending) = self.decided
            {
                return self.end(ending);
            }
            let ending = async {
                match self.ending.as_mut() {
                    Some(ending) => ending.await.ok(),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                ending = ending => (self.decided, self.ending) = (ending, None),
                piece = self.stream.next() => {
                    let piece = piece?;
                    if let Some(last) = piece.as_ref().ok().and_then(|piece| piece.last()) {
                        self.whole = *last == b'\n';
                    }
                    return Some((piece, self));
                }
            }
        }
    }

    fn end(mut self, ending: Ending) -> Option<(Result<Bytes, axum::Error>, Self)> {
        if ending == Ending::Closed || !self.tells_errors {
            return None;
        }
        let status = status(410, "Expired", "too old resource version: 1 (2)", &json!({}));
        let event = format!("{}\n", json!({"type": "ERROR", "object": status}));
        self.decided = Some(Ending::Closed);
        Some((Ok(Bytes::from(event)), self))
    }
}
