//! SPDY/3.1 frames and their bytes (SPDY protocol, draft 3.1, section 2.2).
//!
//! Independent of streams: header blocks stay compressed, and ids are only numbers. Data is passed on as it
//! arrives, so that a frame of 16 MiB is never held; other frames are small or refused.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The longest frame that is read as a whole. Frames of Kubernetes' clients stay below 1 KiB.
pub(super) const MAX_CONTROL_BYTES: usize = 32 << 10;

/// The longest data frame we write.
pub(super) const MAX_DATA_BYTES: usize = 32 << 10;

const VERSION: u16 = 3;
const HEAD_BYTES: usize = 8;
const CONTROL: u32 = 1 << 31;
const STREAM_ID: u32 = CONTROL - 1;

const FLAG_FIN: u8 = 1;
const FLAG_UNIDIRECTIONAL: u8 = 2;

mod kind {
    pub(super) const SYN_STREAM: u16 = 1;
    pub(super) const SYN_REPLY: u16 = 2;
    pub(super) const RST_STREAM: u16 = 3;
    pub(super) const SETTINGS: u16 = 4;
    pub(super) const PING: u16 = 6;
    pub(super) const GOAWAY: u16 = 7;
    pub(super) const HEADERS: u16 = 8;
    pub(super) const WINDOW_UPDATE: u16 = 9;
}

/// The reason why a stream is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResetStatus(pub(crate) u32);

impl ResetStatus {
    pub(super) const PROTOCOL_ERROR: Self = Self(1);
    pub(super) const INVALID_STREAM: Self = Self(2);
    pub(super) const REFUSED_STREAM: Self = Self(3);
    pub(super) const CANCEL: Self = Self(5);
    pub(super) const FLOW_CONTROL_ERROR: Self = Self(7);
    pub(super) const STREAM_ALREADY_CLOSED: Self = Self(9);
}

/// The setting with the initial window size of streams.
pub(super) const INITIAL_WINDOW_SIZE: u32 = 7;

/// One frame, or one piece of a data frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// Opens a stream.
    SynStream { id: u32, associated: u32, priority: u8, fin: bool, unidirectional: bool, block: Bytes },
    /// Accepts a stream.
    SynReply { id: u32, fin: bool, block: Bytes },
    /// Ends a stream at once.
    RstStream { id: u32, status: ResetStatus },
    /// Values by number; the flags of entries request persistence, which is not implemented.
    Settings { entries: Vec<(u32, u32)> },
    /// A ping, or the reply to one.
    Ping { id: u32 },
    /// No stream above `last` will be served; `status` 0 is a normal end.
    GoAway { last: u32, status: u32 },
    /// Further headers of a stream.
    Headers { id: u32, fin: bool, block: Bytes },
    /// The reader accepts `delta` more bytes; for the whole connection if `id` is 0.
    WindowUpdate { id: u32, delta: u32 },
    /// Bytes of a stream. The last piece of a frame has the frame's `fin`.
    Data { id: u32, fin: bool, bytes: Bytes },
    /// An unknown type, to be ignored.
    Unknown { kind: u16 },
}

/// The bytes are no SPDY/3 frame: the connection cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    /// Another version, or not SPDY at all.
    #[error("control frame of unsupported version {0}")]
    Version(u16),
    /// A frame that would have to be held as a whole, and is too long.
    #[error("control frame too large: {0} bytes")]
    TooLong(usize),
    /// Too short for its type, or inconsistent.
    #[error("malformed control frame of type {0}")]
    Malformed(u16),
}

impl Frame {
    /// Appends the frame's bytes.
    pub(super) fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::SynStream { id, associated, priority, fin, unidirectional, block } => {
                let flags = (u8::from(*fin) * FLAG_FIN) | (u8::from(*unidirectional) * FLAG_UNIDIRECTIONAL);
                head(out, kind::SYN_STREAM, flags, 10 + block.len());
                out.put_u32(*id);
                out.put_u32(*associated);
                out.put_u8(priority << 5);
                out.put_u8(0);
                out.extend_from_slice(block);
            }
            Self::SynReply { id, fin, block } => with_block(out, kind::SYN_REPLY, *id, *fin, block),
            Self::Headers { id, fin, block } => with_block(out, kind::HEADERS, *id, *fin, block),
            Self::RstStream { id, status } => two(out, kind::RST_STREAM, *id, status.0),
            Self::GoAway { last, status } => two(out, kind::GOAWAY, *last, *status),
            Self::WindowUpdate { id, delta } => two(out, kind::WINDOW_UPDATE, *id, *delta),
            Self::Settings { entries } => {
                head(out, kind::SETTINGS, 0, 4 + 8 * entries.len());
                out.put_u32(entries.len() as u32);
                for (setting, value) in entries {
                    out.put_u32(*setting);
                    out.put_u32(*value);
                }
            }
            Self::Ping { id } => {
                head(out, kind::PING, 0, 4);
                out.put_u32(*id);
            }
            Self::Data { id, fin, bytes } => {
                out.put_u32(id & STREAM_ID);
                out.put_u8(u8::from(*fin) * FLAG_FIN);
                out.put_uint(bytes.len() as u64, 3);
                out.extend_from_slice(bytes);
            }
            Self::Unknown { kind } => head(out, *kind, 0, 0),
        }
    }
}

fn head(out: &mut BytesMut, kind: u16, flags: u8, length: usize) {
    out.put_u16((1 << 15) | VERSION);
    out.put_u16(kind);
    out.put_u8(flags);
    out.put_uint(length as u64, 3);
}

fn with_block(out: &mut BytesMut, kind: u16, id: u32, fin: bool, block: &Bytes) {
    head(out, kind, u8::from(fin) * FLAG_FIN, 4 + block.len());
    out.put_u32(id);
    out.extend_from_slice(block);
}

fn two(out: &mut BytesMut, kind: u16, first: u32, second: u32) {
    head(out, kind, 0, 8);
    out.put_u32(first);
    out.put_u32(second);
}

/// Splits a byte stream into frames, independent of the network's segmentation.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    bytes: BytesMut,
    /// An incomplete data frame.
    data: Option<PartialDataFrame>,
}

#[derive(Debug)]
struct PartialDataFrame {
    id: u32,
    fin: bool,
    remaining: usize,
}

impl Decoder {
    /// Takes the next bytes of the connection. The caller first takes all complete frames, so that less than
    /// one control frame is held at that time.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next frame; `None` while it is incomplete. After an error there are no more.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        if let Some(open) = self.data.take() {
            return Ok(self.piece(open));
        }
        if self.bytes.len() < HEAD_BYTES {
            return Ok(None);
        }
        let word = (&self.bytes[..4]).get_u32();
        let flags = self.bytes[4];
        let length = (&self.bytes[4..8]).get_u32() as usize & 0x00ff_ffff;
        if word & CONTROL == 0 {
            self.bytes.advance(HEAD_BYTES);
            let open = PartialDataFrame { id: word, fin: flags & FLAG_FIN != 0, remaining: length };
            if length == 0 {
                return Ok(Some(Frame::Data { id: open.id, fin: open.fin, bytes: Bytes::new() }));
            }
            return Ok(self.piece(open));
        }
        let version = (word >> 16) as u16 & 0x7fff;
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        if length > MAX_CONTROL_BYTES {
            return Err(FrameError::TooLong(length));
        }
        if self.bytes.len() < HEAD_BYTES + length {
            return Ok(None);
        }
        self.bytes.advance(HEAD_BYTES);
        let kind = word as u16;
        let body = self.bytes.split_to(length).freeze();
        control(kind, flags, body).map(Some).ok_or(FrameError::Malformed(kind))
    }

    /// Returns the available part of an open data frame.
    fn piece(&mut self, mut open: PartialDataFrame) -> Option<Frame> {
        let count = open.remaining.min(self.bytes.len());
        if count == 0 {
            self.data = Some(open);
            return None;
        }
        let bytes = self.bytes.split_to(count).freeze();
        open.remaining -= count;
        let frame = Frame::Data { id: open.id, fin: open.fin && open.remaining == 0, bytes };
        if open.remaining > 0 {
            self.data = Some(open);
        }
        Some(frame)
    }
}

/// Returns a control frame by its type; `None` if its body does not fit the type.
fn control(kind: u16, flags: u8, mut body: Bytes) -> Option<Frame> {
    let fin = flags & FLAG_FIN != 0;
    let number = |body: &mut Bytes| body.try_get_u32().ok();
    let id = |body: &mut Bytes| Some(body.try_get_u32().ok()? & STREAM_ID);
    let frame = match kind {
        kind::SYN_STREAM => {
            let (id, associated) = (id(&mut body)?, id(&mut body)?);
            let priority = body.try_get_u8().ok()? >> 5;
            let _slot = body.try_get_u8().ok()?;
            let unidirectional = flags & FLAG_UNIDIRECTIONAL != 0;
            return Some(Frame::SynStream { id, associated, priority, fin, unidirectional, block: body });
        }
        kind::SYN_REPLY => return Some(Frame::SynReply { id: id(&mut body)?, fin, block: body }),
        kind::HEADERS => return Some(Frame::Headers { id: id(&mut body)?, fin, block: body }),
        kind::RST_STREAM => Frame::RstStream { id: id(&mut body)?, status: ResetStatus(number(&mut body)?) },
        kind::PING => Frame::Ping { id: number(&mut body)? },
        kind::GOAWAY => Frame::GoAway { last: id(&mut body)?, status: number(&mut body)? },
        kind::WINDOW_UPDATE => Frame::WindowUpdate { id: id(&mut body)?, delta: id(&mut body)? },
        kind::SETTINGS => {
            let count = number(&mut body)? as usize;
            if body.len() != count.checked_mul(8)? {
                return None;
            }
            let entry = |body: &mut Bytes| Some((number(body)? & 0x00ff_ffff, number(body)?));
            Frame::Settings { entries: (0..count).map(|_| entry(&mut body)).collect::<Option<_>>()? }
        }
        _ => return Some(Frame::Unknown { kind }),
    };
    body.is_empty().then_some(frame)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes_of(frame: &Frame) -> BytesMut {
        let mut out = BytesMut::new();
        frame.encode(&mut out);
        out
    }

    /// The examples in the protocol's text.
    #[test]
    fn frames_are_laid_out_as_the_protocol_draws_them_api_3() {
        let check = |frame: Frame, expected: &[u8]| {
            assert_eq!(bytes_of(&frame), expected, "{frame:?}");
            let mut decoder = Decoder::default();
            decoder.feed(expected);
            assert_eq!(decoder.next(), Ok(Some(frame)));
            assert_eq!(decoder.next(), Ok(None));
        };
        let block = Bytes::from_static(b"zz");
        check(
            Frame::SynStream {
                id: 5,
                associated: 0,
                priority: 2,
                fin: true,
                unidirectional: false,
                block: block.clone(),
            },
            b"\x80\x03\0\x01\x01\0\0\x0c\0\0\0\x05\0\0\0\0\x40\0zz",
        );
        check(
            Frame::SynReply { id: 5, fin: false, block: block.clone() },
            b"\x80\x03\0\x02\0\0\0\x06\0\0\0\x05zz",
        );
        check(
            Frame::RstStream { id: 7, status: ResetStatus::CANCEL },
            b"\x80\x03\0\x03\0\0\0\x08\0\0\0\x07\0\0\0\x05",
        );
        check(
            Frame::Settings { entries: vec![(INITIAL_WINDOW_SIZE, 65_536)] },
            b"\x80\x03\0\x04\0\0\0\x0c\0\0\0\x01\0\0\0\x07\0\x01\0\0",
        );
        check(Frame::Ping { id: 9 }, b"\x80\x03\0\x06\0\0\0\x04\0\0\0\x09");
        check(Frame::GoAway { last: 3, status: 0 }, b"\x80\x03\0\x07\0\0\0\x08\0\0\0\x03\0\0\0\0");
        check(Frame::Headers { id: 5, fin: true, block }, b"\x80\x03\0\x08\x01\0\0\x06\0\0\0\x05zz");
        check(Frame::WindowUpdate { id: 0, delta: 0x1_0000 }, b"\x80\x03\0\x09\0\0\0\x08\0\0\0\0\0\x01\0\0");
        check(
            Frame::Data { id: 5, fin: true, bytes: Bytes::from_static(b"hi") },
            b"\0\0\0\x05\x01\0\0\x02hi",
        );
        check(Frame::Data { id: 5, fin: true, bytes: Bytes::new() }, b"\0\0\0\x05\x01\0\0\0");
        check(Frame::Unknown { kind: 40 }, b"\x80\x03\0\x28\0\0\0\0");
    }

    #[test]
    fn invalid_frames_are_rejected_sec_2() {
        let check = |bytes: &[u8], expected: FrameError| {
            let mut decoder = Decoder::default();
            decoder.feed(bytes);
            assert_eq!(decoder.next(), Err(expected), "{bytes:x?}");
        };
        check(b"\x80\x02\0\x06\0\0\0\x04\0\0\0\x01", FrameError::Version(2));
        // The frame is refused by its header alone, before any data is buffered.
        check(b"\x80\x03\0\x01\0\xff\xff\xff", FrameError::TooLong(0x00ff_ffff));
        check(b"\x80\x03\0\x06\0\0\0\x03\0\0\x01", FrameError::Malformed(kind::PING));
        check(b"\x80\x03\0\x06\0\0\0\x05\0\0\0\0\x01", FrameError::Malformed(kind::PING));
        check(b"\x80\x03\0\x01\0\0\0\x04\0\0\0\x01", FrameError::Malformed(kind::SYN_STREAM));
        check(
            b"\x80\x03\0\x04\0\0\0\x0c\xff\xff\xff\xff\0\0\0\x07\0\x01\0\0",
            FrameError::Malformed(kind::SETTINGS),
        );
    }

    #[test]
    fn a_long_data_frame_is_handed_on_as_it_comes_sec_2() {
        let mut decoder = Decoder::default();
        decoder.feed(b"\0\0\0\x01\x01\xff\xff\xff");
        assert_eq!(decoder.next(), Ok(None));
        let mut total = 0;
        while total < 0x00ff_ffff {
            decoder.feed(&vec![0; 65_536.min(0x00ff_ffff - total)]);
            while let Some(frame) = decoder.next().unwrap() {
                let Frame::Data { id: 1, fin, bytes } = frame else { panic!("{frame:?}") };
                total += bytes.len();
                assert_eq!(fin, total == 0x00ff_ffff);
                assert!(decoder.bytes.is_empty());
            }
        }
    }

    fn block() -> impl Strategy<Value = Bytes> {
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from)
    }

    fn frame() -> impl Strategy<Value = Frame> {
        let id = 0..=STREAM_ID;
        prop_oneof![
            (id.clone(), id.clone(), 0..8_u8, any::<bool>(), any::<bool>(), block()).prop_map(
                |(id, associated, priority, fin, unidirectional, block)| Frame::SynStream {
                    id,
                    associated,
                    priority,
                    fin,
                    unidirectional,
                    block
                }
            ),
            (id.clone(), any::<bool>(), block()).prop_map(|(id, fin, block)| Frame::SynReply {
                id,
                fin,
                block
            }),
            (id.clone(), any::<bool>(), block()).prop_map(|(id, fin, block)| Frame::Headers {
                id,
                fin,
                block
            }),
            (id.clone(), any::<u32>())
                .prop_map(|(id, status)| Frame::RstStream { id, status: ResetStatus(status) }),
            prop::collection::vec((0..1_u32 << 24, any::<u32>()), 0..9)
                .prop_map(|entries| Frame::Settings { entries }),
            any::<u32>().prop_map(|id| Frame::Ping { id }),
            (id.clone(), any::<u32>()).prop_map(|(last, status)| Frame::GoAway { last, status }),
            (id.clone(), id.clone()).prop_map(|(id, delta)| Frame::WindowUpdate { id, delta }),
            (id, any::<bool>(), block()).prop_map(|(id, fin, bytes)| Frame::Data { id, fin, bytes }),
        ]
    }

    /// Joins the pieces of data frames.
    fn joined(frames: Vec<Frame>) -> Vec<Frame> {
        let mut out: Vec<Frame> = Vec::new();
        let mut open = false;
        for frame in frames {
            match (out.last_mut(), frame) {
                (
                    Some(Frame::Data { id, fin, bytes }),
                    Frame::Data { id: next_id, fin: next_fin, bytes: next },
                ) if open && *id == next_id => {
                    *bytes = [bytes.as_ref(), next.as_ref()].concat().into();
                    *fin = next_fin;
                }
                (_, frame) => out.push(frame),
            }
            open = true;
        }
        out
    }

    proptest! {
        /// Frames are read as they were written, with any segmentation.
        #[test]
        fn frames_survive_any_split_api_3(
            frames in prop::collection::vec(frame(), 1..12),
            sizes in prop::collection::vec(1..50_usize, 1..20),
        ) {
            let mut wire = BytesMut::new();
            for frame in &frames {
                frame.encode(&mut wire);
            }
            let (mut decoder, mut read, mut size) = (Decoder::default(), Vec::new(), sizes.iter().cycle());
            while !wire.is_empty() {
                let count = wire.len().min(*size.next().unwrap());
                decoder.feed(&wire.split_to(count));
                while let Some(frame) = decoder.next().unwrap() {
                    read.push(frame);
                }
            }
            prop_assert_eq!(joined(read), joined(frames));
        }

        /// Hostile bytes yield frames or an error, and never more bytes than they were.
        #[test]
        fn no_bytes_are_too_hostile_sec_2(chunks in prop::collection::vec(block(), 1..30), head: bool) {
            let mut decoder = Decoder::default();
            let mut left = 0;
            if head {
                decoder.feed(b"\x80\x03\0");
                left += 3;
            }
            'all: for chunk in chunks {
                decoder.feed(&chunk);
                left += chunk.len();
                loop {
                    match decoder.next() {
                        Ok(Some(Frame::Data { bytes, .. })) => left -= bytes.len(),
                        Ok(Some(_)) => {}
                        Ok(None) => break,
                        Err(_) => break 'all,
                    }
                }
                prop_assert!(decoder.bytes.len() <= left);
            }
        }
    }
}
