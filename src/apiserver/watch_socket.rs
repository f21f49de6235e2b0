//! A watch over WebSocket, for browsers: each event is a message, text for JSON.

use axum::body::Body;
use axum::response::Response;
use bytes::{Buf, Bytes, BytesMut};
use futures::{Stream, StreamExt};
use http::header::CONTENT_TYPE;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::Server;
use super::auth::is_token;
use super::durability::ShownRevision;
use super::negotiate::MediaType;
use super::upgrade::{self, Upgrade};
use api::ApiError;

/// The framing of a watch's events in its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// One JSON document per line.
    Lines,
    /// Each message after its length, four bytes in big-endian order.
    Lengths,
}

impl Framing {
    /// Takes the first complete event. If there is none, the next search starts where this one ended.
    fn next(self, buffered: &mut BytesMut, searched: &mut usize) -> Option<Bytes> {
        match self {
            Self::Lines => {
                let end = buffered[*searched..].iter().position(|byte| *byte == b'\n');
                let Some(end) = end.map(|end| *searched + end) else {
                    *searched = buffered.len();
                    return None;
                };
                *searched = 0;
                let line = buffered.split_to(end).freeze();
                buffered.advance(1);
                Some(line)
            }
            Self::Lengths => {
                let length = buffered.first_chunk::<4>().map(|head| u32::from_be_bytes(*head) as usize)?;
                if buffered.len() - 4 < length {
                    return None;
                }
                buffered.advance(4);
                Some(buffered.split_to(length).freeze())
            }
        }
    }

    fn message(self, event: Bytes) -> Message {
        match self {
            Self::Lines => Utf8Bytes::try_from(event.clone()).map_or(Message::Binary(event), Message::Text),
            Self::Lengths => Message::Binary(event),
        }
    }
}

/// Sends the events of a watch's response as messages of a socket.
pub(super) fn handle(server: &Server, upgrade: Upgrade, watch: Response) -> Result<Response, ApiError> {
    let Upgrade::WebSocket(mut socket) = upgrade else {
        return Err(ApiError::BadRequest("watches can be upgraded only to WebSocket".into()));
    };
    let (parts, body) = watch.into_parts();
    let is_json =
        parts.headers.get(CONTENT_TYPE).is_some_and(|type_| type_ == MediaType::Json.content_type(true));
    let framing = if is_json { Framing::Lines } else { Framing::Lengths };
    // As in Kubernetes, events are sent in one way; the name of the protocol does not matter.
    socket.choose_any(|protocol| !is_token(protocol));
    let timeout = server.api().timings().http_request_timeout.0;
    let messages = events(framing, body).map(move |event| framing.message(event));
    let response = socket.switch(server, move |socket| {
        let (sink, inward) = socket.split();
        upgrade::send_to(sink, inward, messages, timeout)
    });
    Ok(match parts.extensions.get::<ShownRevision>() {
        Some(shown) => ShownRevision::up_to(shown.0, response),
        None => response,
    })
}

/// Returns the events of a body, one by one.
fn events(framing: Framing, body: Body) -> impl Stream<Item = Bytes> {
    let state = (body.into_data_stream(), BytesMut::new(), 0);
    futures::stream::unfold(state, move |(mut pieces, mut buffered, mut searched)| async move {
        loop {
            if let Some(event) = framing.next(&mut buffered, &mut searched) {
                return Some((event, (pieces, buffered, searched)));
            }
            buffered.extend_from_slice(&pieces.next().await?.ok()?);
        }
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[tokio::test]
    async fn each_event_is_a_message_however_the_body_is_cut_api_19() {
        let lines = b"{\"a\":1}\n{\"b\":\"x y\"}\n{\"c\":2}\n".to_vec();
        let lengths = [&[0, 0, 0, 2][..], b"ab", &[0, 0, 0, 0], &[0, 0, 0, 3], b"cde"].concat();
        for (framing, whole, expected) in [
            (Framing::Lines, lines, vec!["{\"a\":1}", "{\"b\":\"x y\"}", "{\"c\":2}"]),
            (Framing::Lengths, lengths, vec!["ab", "", "cde"]),
        ] {
            for size in 1..=whole.len() {
                let pieces: Vec<_> = whole
                    .chunks(size)
                    .map(|piece| Ok::<_, Infallible>(Bytes::copy_from_slice(piece)))
                    .collect();
                let body = Body::from_stream(futures::stream::iter(pieces));
                let found: Vec<Bytes> = events(framing, body).collect().await;
                assert_eq!(found, expected, "{framing:?} in pieces of {size}");
            }
        }
    }

    /// Regression: each part of a long event was searched again with every chunk that arrived.
    #[test]
    fn no_byte_is_searched_twice_for_the_end_of_an_event_api_19() {
        let (mut buffered, mut searched) = (BytesMut::new(), 0);
        for _ in 0..3 {
            buffered.extend_from_slice(b"long");
            assert_eq!(Framing::Lines.next(&mut buffered, &mut searched), None);
            assert_eq!(searched, buffered.len());
        }
        buffered.extend_from_slice(b"\n\nc\n");
        for expected in ["longlonglong", "", "c"] {
            assert_eq!(
                Framing::Lines.next(&mut buffered, &mut searched).as_deref(),
                Some(expected.as_bytes())
            );
            assert_eq!(searched, 0);
        }
    }
}
