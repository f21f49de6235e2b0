//! The open watches of clients, which a test can end or hold back.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::{Body, BodyDataStream};
use axum::response::Response;
use bytes::Bytes;
use futures::StreamExt;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use api::ApiError;
use apiserver::{RequestAttributes, watch_error_event};

use super::requests::Requests;

/// The way in which a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The connection closes, as after a timeout: the client resumes the watch.
    Closed,
    /// The watch ends with `410 Gone`: the client has to list again.
    Expired,
}

/// An open watch.
struct OpenWatch {
    attributes: RequestAttributes,
    end: oneshot::Sender<Ending>,
}

/// All open watches.
#[derive(Default)]
pub(super) struct Watches {
    open: Mutex<Vec<OpenWatch>>,
    /// The rules that hold back watches, each with its number.
    paused: watch::Sender<Vec<(u64, Requests)>>,
    /// The number of rules so far, which is the next rule's number.
    rules: AtomicU64,
}

impl Watches {
    /// Returns the response to a watch request; from now on the watch can be ended.
    pub(super) fn follow(&self, attributes: RequestAttributes, response: Response) -> Response {
        // The request was refused, or is a WebSocket's handshake.
        if response.status() != StatusCode::OK {
            return response;
        }
        let type_ = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let type_ = type_.unwrap_or_default().to_string();
        let events = if type_.starts_with("application/json") { Events::lines() } else { Events::lengths() };
        let (end, ending) = oneshot::channel();
        let mut all = self.open.lock();
        all.retain(|open| !open.end.is_closed());
        all.push(OpenWatch { attributes: attributes.clone(), end });
        let held = self.paused.subscribe();
        response.map(|body| {
            let stream = body.into_data_stream();
            let followed = WatchBody {
                stream,
                ending: Some(ending),
                decided: None,
                events,
                type_,
                attributes,
                paused: held,
            };
            Body::from_stream(futures::stream::unfold(followed, WatchBody::next))
        })
    }

    /// Ends the open watches among these requests, and returns their number.
    pub(super) fn end(&self, requests: &Requests, ending: Ending) -> usize {
        let mut all = self.open.lock();
        all.retain(|open| !open.end.is_closed());
        let ended = all.extract_if(.., |open| requests.matches(&open.attributes));
        ended.filter_map(|open| open.end.send(ending).ok()).count()
    }

    /// Returns the resources, each with its group, of the open watches among these requests.
    pub(super) fn resources(&self, requests: &Requests) -> BTreeSet<(String, String)> {
        let mut all = self.open.lock();
        all.retain(|open| !open.end.is_closed());
        let meant = all.iter().filter(|open| requests.matches(&open.attributes));
        meant.map(|open| (open.attributes.resource.clone(), open.attributes.group.clone())).collect()
    }

    /// Holds back the events of watches among these requests, open ones and new ones, until the rule with the returned
    /// number is released.
    pub(super) fn hold(&self, requests: Requests) -> u64 {
        let number = self.rules.fetch_add(1, Ordering::Relaxed);
        self.paused.send_modify(|rules| rules.push((number, requests)));
        number
    }

    /// Releases a rule: its watches deliver the events held back, and continue.
    pub(super) fn release(&self, number: u64) {
        self.paused.send_modify(|rules| rules.retain(|(known, _)| *known != number));
    }
}

/// Tracks event boundaries in the bytes that were sent.
#[derive(Debug)]
enum Events {
    /// One JSON document per line.
    Lines { is_whole: bool },
    /// Messages, each after its length of four bytes in big-endian order. `head` has the bytes of the length so far,
    /// and `lacks` is the number of bytes that the message still lacks.
    Lengths { head: Vec<u8>, lacks: usize },
}

impl Events {
    fn lines() -> Self {
        Self::Lines { is_whole: true }
    }

    fn lengths() -> Self {
        Self::Lengths { head: Vec::new(), lacks: 0 }
    }

    /// Records that a chunk is sent.
    fn record(&mut self, mut piece: &[u8]) {
        match self {
            Self::Lines { is_whole } => *is_whole = piece.last().map_or(*is_whole, |last| *last == b'\n'),
            Self::Lengths { head, lacks } => {
                while !piece.is_empty() {
                    if *lacks > 0 {
                        let taken = piece.len().min(*lacks);
                        (*lacks, piece) = (*lacks - taken, &piece[taken..]);
                        continue;
                    }
                    head.push(piece[0]);
                    piece = &piece[1..];
                    if let Some(length) = head.first_chunk::<4>() {
                        *lacks = u32::from_be_bytes(*length) as usize;
                        head.clear();
                    }
                }
            }
        }
    }

    /// Returns true if no event is partly sent.
    fn is_whole(&self) -> bool {
        match self {
            Self::Lines { is_whole } => *is_whole,
            Self::Lengths { head, lacks } => head.is_empty() && *lacks == 0,
        }
    }
}

/// The remaining response of a watch.
struct WatchBody {
    stream: BodyDataStream,
    /// Delivers the requested ending; `None` once it was delivered or its sender was dropped.
    ending: Option<oneshot::Receiver<Ending>>,
    /// The ending that follows once the current event has been sent completely.
    decided: Option<Ending>,
    events: Events,
    /// The response's content type, which determines the format of an error event.
    type_: String,
    /// The attributes of the request.
    attributes: RequestAttributes,
    /// The rules that currently hold back watches.
    paused: watch::Receiver<Vec<(u64, Requests)>>,
}

impl WatchBody {
    /// Returns the next chunk of the response: one of the server's, or the error event of an ending; `None` at the end.
    async fn next(mut self) -> Option<(Result<Bytes, axum::Error>, Self)> {
        loop {
            if self.events.is_whole()
                && let Some(ending) = self.decided
            {
                return self.end(ending);
            }
            let is_held = self.events.is_whole()
                && self
                    .paused
                    .borrow_and_update()
                    .iter()
                    .any(|(_, requests)| requests.matches(&self.attributes));
            let ending = async {
                match self.ending.as_mut() {
                    Some(ending) => ending.await.ok(),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                ending = ending => (self.decided, self.ending) = (ending, None),
                // An error means that the sender was dropped, because the cluster has ended.
                changed = self.paused.changed() => changed.ok()?,
                piece = self.stream.next(), if !is_held => {
                    let piece = piece?;
                    if let Ok(piece) = &piece {
                        self.events.record(piece);
                    }
                    return Some((piece, self));
                }
            }
        }
    }

    fn end(mut self, ending: Ending) -> Option<(Result<Bytes, axum::Error>, Self)> {
        if ending == Ending::Closed {
            return None;
        }
        let expired = ApiError::Expired("too old resource version: 1 (2)".into());
        let event = watch_error_event(&self.type_, &expired);
        self.decided = Some(Ending::Closed);
        Some((Ok(event), self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_whole_where_its_form_says_so_api_20_fault_1() {
        let message = [&[0, 0, 0, 2][..], b"a\n", &[0, 0, 0, 0], &[0, 0, 0, 3], b"bcd"].concat();
        let ends = [6, 10, 17];
        for size in 1..=message.len() {
            let (mut events, mut sent) = (Events::lengths(), 0);
            assert!(events.is_whole());
            for piece in message.chunks(size) {
                events.record(piece);
                sent += piece.len();
                assert_eq!(events.is_whole(), ends.contains(&sent), "{sent} bytes in pieces of {size}");
            }
        }
        let mut events = Events::lines();
        for (piece, expected) in
            [(&b"{}"[..], false), (b"", false), (b"\n{", false), (b"}\n", true), (b"", true)]
        {
            events.record(piece);
            assert_eq!(events.is_whole(), expected);
        }
    }
}
