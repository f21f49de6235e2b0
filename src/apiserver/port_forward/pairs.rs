//! Pairs the streams of a port-forward: those with the same request id, one for data and one for errors.
//!
//! Independent of sockets: a stream is any value of the caller.

use std::collections::HashMap;

use tokio::time::Instant;

use super::parse_port;
use crate::spdy::Headers;

/// The purpose of a stream in a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamType {
    Data,
    Error,
}

/// The role of a stream, from its headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Role {
    request: String,
    of: StreamType,
    port: u16,
}

impl Role {
    /// Reads a stream's headers; the error is for the log, since the client only sees a refused stream.
    pub(super) fn of(headers: &Headers, id: u32) -> Result<Self, String> {
        let port = match headers.get("port") {
            "" => return Err("\"port\" header is required".into()),
            text => parse_port(text)?,
        };
        let of = match headers.get("streamtype") {
            "" => return Err("\"streamType\" header is required".into()),
            "data" => StreamType::Data,
            "error" => StreamType::Error,
            other => return Err(format!("invalid stream type \"{other}\"")),
        };
        let request = match (headers.get("requestid"), of) {
            // Clients from before request ids open the error stream first and its data stream next.
            ("", StreamType::Error) => id.to_string(),
            ("", StreamType::Data) => id.saturating_sub(2).to_string(),
            (given, _) => given.to_string(),
        };
        Ok(Self { request, of, port })
    }
}

/// Both streams of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pair<T> {
    pub(super) data: T,
    pub(super) error: T,
    pub(super) port: u16,
}

/// Streams that wait for their counterparts.
#[derive(Debug)]
pub(super) struct Pairs<T> {
    waiting: HashMap<String, PendingStream<T>>,
}

#[derive(Debug)]
struct PendingStream<T> {
    stream: T,
    role: Role,
    since: Instant,
}

/// The result of adding a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PairResult<T> {
    /// The stream waits for its counterpart.
    Waits,
    /// The pair is complete.
    Complete(Pair<T>),
    /// The request already has a stream of this type; the new stream is returned with the error.
    Twice(T, String),
}

impl<T> Pairs<T> {
    pub(super) fn new() -> Self {
        Self { waiting: HashMap::new() }
    }

    pub(super) fn add(&mut self, role: Role, stream: T, now: Instant) -> PairResult<T> {
        match self.waiting.remove(&role.request) {
            None => {
                self.waiting.insert(role.request.clone(), PendingStream { stream, role, since: now });
                PairResult::Waits
            }
            Some(half) if half.role.of == role.of => {
                let which = if role.of == StreamType::Data { "data" } else { "error" };
                let message = format!(
                    "error processing stream for request {}: {which} stream already assigned",
                    role.request
                );
                self.waiting.insert(role.request, half);
                PairResult::Twice(stream, message)
            }
            Some(half) => PairResult::Complete(match role.of {
                StreamType::Data => Pair { data: stream, error: half.stream, port: role.port },
                StreamType::Error => Pair { data: half.stream, error: stream, port: half.role.port },
            }),
        }
    }

    /// Returns the start of the longest wait.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.waiting.values().map(|half| half.since).min()
    }

    /// Removes the streams that have waited since before `then`, and returns them with their types.
    pub(super) fn take_older(&mut self, then: Instant) -> Vec<(StreamType, T)> {
        let late = self.waiting.extract_if(|_, half| half.since <= then);
        late.map(|(_, half)| (half.role.of, half.stream)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn role(kind: &str, request: &str, id: u32) -> Role {
        Role::of(&Headers::from([("streamType", kind), ("port", "80"), ("requestID", request)]), id).unwrap()
    }

    #[test]
    fn headers_say_what_a_stream_is_for_api_3() {
        let check = |kind: &str, port: &str, expected: &str| {
            let read = Role::of(&Headers::from([("streamType", kind), ("port", port)]), 7);
            assert_eq!(read.unwrap_err(), expected);
        };
        check("data", "", "\"port\" header is required");
        check("data", "x", "unable to parse \"x\" as a port");
        check("data", "65536", "unable to parse \"65536\" as a port");
        check("data", "0", "port \"0\" must be > 0");
        check("", "80", "\"streamType\" header is required");
        check("stdin", "80", "invalid stream type \"stdin\"");
    }

    #[tokio::test(start_paused = true)]
    async fn streams_find_each_other_in_any_order_api_3() {
        let now = Instant::now();
        let mut pairs = Pairs::new();
        assert_eq!(pairs.add(role("error", "1", 1), "e1", now), PairResult::Waits);
        assert_eq!(pairs.add(role("data", "2", 3), "d2", now), PairResult::Waits);
        let complete = |data, error| PairResult::Complete(Pair { data, error, port: 80 });
        assert_eq!(pairs.add(role("error", "2", 5), "e2", now), complete("d2", "e2"));
        assert_eq!(pairs.add(role("data", "1", 7), "d1", now), complete("d1", "e1"));
        // Without request ids, by the order of arrival.
        assert_eq!(pairs.add(role("error", "", 9), "e9", now), PairResult::Waits);
        assert_eq!(pairs.add(role("data", "", 11), "d11", now), complete("d11", "e9"));
        assert_eq!(pairs.oldest(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_half_is_given_back_api_3() {
        let now = Instant::now();
        let mut pairs = Pairs::new();
        pairs.add(role("error", "1", 1), "e1", now);
        let message = "error processing stream for request 1: error stream already assigned";
        assert_eq!(
            pairs.add(role("error", "1", 3), "again", now),
            PairResult::Twice("again", message.into())
        );
        let later = now + Duration::from_secs(5);
        pairs.add(role("data", "2", 5), "d2", later);
        assert_eq!(pairs.oldest(), Some(now));
        assert_eq!(pairs.take_older(now), [(StreamType::Error, "e1")]);
        assert_eq!(pairs.take_older(later), [(StreamType::Data, "d2")]);
        assert_eq!(pairs.take_older(later), []);
    }
}
