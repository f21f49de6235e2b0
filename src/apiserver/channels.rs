//! Several streams in the messages of one WebSocket: the first byte names the channel.
//!
//! In the base64 variants, for old browsers, that byte is a digit and base64 text follows.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tokio_tungstenite::tungstenite::Message;

/// The encoding of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Binary,
    Base64,
}

impl Framing {
    /// Returns the framing of a protocol, by its name.
    pub(super) fn of(protocol: &str) -> Self {
        if protocol.contains("base64") { Self::Base64 } else { Self::Binary }
    }

    /// Returns a message on a channel.
    pub(super) fn message(self, channel: u8, data: &[u8]) -> Message {
        match self {
            Self::Base64 => {
                let mut text = char::from(b'0' + channel).to_string();
                STANDARD.encode_string(data, &mut text);
                Message::Text(text.into())
            }
            Self::Binary => {
                let mut bytes = Vec::with_capacity(data.len() + 1);
                bytes.push(channel);
                bytes.extend_from_slice(data);
                Message::Binary(bytes.into())
            }
        }
    }

    /// Returns the channel and content of a message; `None` for messages without a channel.
    pub(super) fn content(self, message: Message) -> Option<(u8, Bytes)> {
        let bytes = data(message)?;
        let channel = *bytes.first()?;
        match self {
            Self::Base64 => Some((channel.checked_sub(b'0')?, STANDARD.decode(&bytes[1..]).ok()?.into())),
            Self::Binary => Some((channel, bytes.slice(1..))),
        }
    }
}

/// Returns the payload of a message. Text and binary messages are treated alike: some clients send typed
/// input as text even if the protocol demands binary.
pub(super) fn data(message: Message) -> Option<Bytes> {
    match message {
        Message::Binary(bytes) => Some(bytes),
        Message::Text(text) => Some(text.into()),
        Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The official Python client sends stdin in text frames.
    #[test]
    fn messages_carry_their_channel_be_they_text_or_binary_eph_2() {
        let binary = |bytes: &'static [u8]| Framing::Binary.content(Message::Binary(bytes.into()));
        assert_eq!(binary(b""), None);
        assert_eq!(binary(b"\x00"), Some((0, Bytes::new())));
        assert_eq!(binary(b"\x04ab"), Some((4, "ab".into())));
        assert_eq!(
            Framing::Binary.content(Message::Text("\0echo hi\n".into())),
            Some((0, "echo hi\n".into()))
        );
        assert_eq!(Framing::Binary.content(Message::Ping("\0x".into())), None);

        let text = |text: &'static str| Framing::Base64.content(Message::Text(text.into()));
        assert_eq!(text("0YWI="), Some((0, "ab".into())));
        let bytes = Message::Binary(Bytes::from_static(b"0YWI="));
        assert_eq!(Framing::Base64.content(bytes), Some((0, "ab".into())));
        assert_eq!(text("0"), Some((0, Bytes::new())));
        assert_eq!(text(""), None);
        assert_eq!(text("0*"), None);
        assert_eq!(text(" YWI="), None);
        assert_eq!(text("éYWI="), None);

        for framing in [Framing::of("v4.channel.k8s.io"), Framing::of("v4.base64.channel.k8s.io")] {
            assert_eq!(
                framing.content(framing.message(3, b"\xff\0")),
                Some((3, Bytes::from_static(b"\xff\0")))
            );
        }
    }
}
