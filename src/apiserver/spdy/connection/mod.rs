//! One SPDY/3.1 connection without its socket: bytes in, events out; requests in, bytes out.
//!
//! **Flow control.** Kubernetes' own clients (`moby/spdystream`) neither announce windows nor respect any, so
//! windows alone limit no peer: a fast peer is held back because its bytes are no longer read once
//! [`MAX_BUFFERED`] of them wait for their readers. We announce windows for peers that respect them, and
//! respect the peer's as soon as it announces one; before that we send as fast as the socket accepts.
//!
//! Invariant: everything that a peer can make us hold is bounded: streams, bytes that wait for a reader,
//! replies that wait for the socket, header blocks.

use std::collections::{HashMap, VecDeque};

use bytes::{Bytes, BytesMut};

use super::frame::{Decoder, Frame, FrameError, INITIAL_WINDOW_SIZE, MAX_DATA_BYTES, ResetStatus};
use super::headers::{HeaderError, HeaderReader, HeaderWriter, Headers};
use base::sort::SliceOrder;

/// The limit on open streams of a connection; a port-forward has two for each connection it relays.
pub(super) const MAX_STREAMS: usize = 2048;

/// The limit on received bytes that wait for their streams' readers; beyond it the peer waits.
const MAX_BUFFERED: usize = 1 << 20;

/// The memory that a piece of data costs in addition to its bytes.
const PIECE_COST: usize = 64;

/// Shorter pieces are copied out of the receive buffer, which they would otherwise keep alive as a whole.
const SHORT_PIECE: usize = 4 << 10;

/// The size up to which data is added to the output.
const OUTPUT_BYTES: usize = 64 << 10;

/// A peer that leaves this much output unread is no longer read from.
const MAX_OUTPUT: usize = 4 * OUTPUT_BYTES;

/// SPDY's window of streams and connections before another is announced.
const DEFAULT_WINDOW: i64 = 64 << 10;

/// Bytes that are read before a new window is announced.
const ANNOUNCE_AFTER: u32 = 32 << 10;

const MAX_WINDOW: i64 = (1 << 31) - 1;

/// The side of the connection: clients' streams and pings have odd numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Server,
    #[cfg(test)]
    Client,
}

impl Side {
    fn peer_owns(self, id: u32) -> bool {
        (id % 2 == 1) == (self == Self::Server)
    }
}

/// An action of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It opened a stream, which waits for [`Connection::accept`] or a reset.
    Opened { id: u32, headers: Headers },
    /// It accepted our stream.
    Accepted { id: u32 },
    /// It sent bytes; [`Connection::consumed`] is due for each piece.
    Data { id: u32, bytes: Bytes },
    /// It sends no more on this stream.
    Finished { id: u32 },
    /// The stream is closed, in order or not.
    Closed { id: u32 },
}

/// The reason why the connection cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectionError {
    /// The bytes are not SPDY.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The compression state is lost.
    #[error(transparent)]
    Headers(#[from] HeaderError),
    /// Stream numbers must grow and be the peer's own.
    #[error("invalid stream id {0}")]
    StreamId(u32),
    /// A window of more than 2³¹ bytes.
    #[error("the flow-control window is too large")]
    Window,
}

#[derive(Debug, Default)]
struct Stream {
    /// Bytes that wait to be sent.
    pending: Bytes,
    /// The stream ends after the pending bytes.
    finishing: bool,
    finished: bool,
    peer_finished: bool,
    /// The stream has no reader any more: its input is discarded.
    unread: bool,
    send_window: i64,
    /// The cost of the data that waits for the reader.
    buffered: usize,
    /// Bytes read since the last window was announced.
    unacknowledged: u32,
}

impl Stream {
    fn over(&self) -> bool {
        self.finished && self.peer_finished && self.buffered == 0
    }

    fn wants_to_send(&self) -> bool {
        !self.pending.is_empty() || (self.finishing && !self.finished)
    }
}

/// The state of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    side: Side,
    decoder: Decoder,
    reader: HeaderReader,
    writer: HeaderWriter,
    streams: HashMap<u32, Stream>,
    /// The highest number the peer has used.
    highest: u32,
    #[cfg(test)]
    next_id: u32,
    events: VecDeque<Event>,
    output: BytesMut,
    /// Streams with something to send, in round-robin order.
    sending: VecDeque<u32>,
    /// Streams whose pending bytes are all in the output.
    drained: Vec<u32>,
    buffered: usize,
    unannounced: u32,
    /// The peer announces windows, so it respects ours too.
    peer_has_windows: bool,
    initial_send_window: i64,
    send_window: i64,
}

impl Connection {
    pub(super) fn new(side: Side) -> Self {
        Self {
            side,
            decoder: Decoder::default(),
            reader: HeaderReader::new(),
            writer: HeaderWriter::new(),
            streams: HashMap::new(),
            highest: 0,
            #[cfg(test)]
            next_id: 1,
            events: VecDeque::new(),
            output: BytesMut::new(),
            sending: VecDeque::new(),
            drained: Vec::new(),
            buffered: 0,
            unannounced: 0,
            peer_has_windows: false,
            initial_send_window: DEFAULT_WINDOW,
            send_window: DEFAULT_WINDOW,
        }
    }

    /// Returns true if the peer's bytes should be read now.
    pub(super) fn wants_input(&self) -> bool {
        self.buffered < MAX_BUFFERED && self.output.len() < MAX_OUTPUT
    }

    /// Takes bytes of the peer; their events follow from [`Self::next_event`].
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        self.decoder.feed(bytes);
        while let Some(frame) = self.decoder.next()? {
            self.frame(frame)?;
        }
        Ok(())
    }

    pub(super) fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the bytes for the peer, to be taken from the front.
    pub(super) fn output(&mut self) -> &mut BytesMut {
        self.fill();
        &mut self.output
    }

    /// Takes the list of streams whose pending bytes are all in the output, so that they accept more.
    pub(super) fn take_drained(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.drained)
    }

    /// Opens a stream of our own.
    #[cfg(test)]
    pub(super) fn open(&mut self, headers: &Headers) -> Result<u32, ConnectionError> {
        let id = self.next_id;
        self.next_id += 2;
        self.streams.insert(id, Stream { send_window: self.initial_send_window, ..Stream::default() });
        let block = self.writer.write(headers)?;
        let (associated, priority, fin, unidirectional) = (0, 0, false, false);
        self.put(&Frame::SynStream { id, associated, priority, fin, unidirectional, block });
        Ok(id)
    }

    /// Accepts a stream of the peer.
    pub(super) fn accept(&mut self, id: u32) -> Result<(), ConnectionError> {
        if self.streams.contains_key(&id) {
            let block = self.writer.write(&Headers::default())?;
            self.put(&Frame::SynReply { id, fin: false, block });
        }
        Ok(())
    }

    /// Gives a stream bytes to send. The caller waits for the stream in [`Self::take_drained`] before it gives
    /// more; returns false if the stream is closed.
    pub(super) fn send(&mut self, id: u32, bytes: Bytes) -> bool {
        match self.streams.get_mut(&id) {
            Some(stream) if !stream.finishing && stream.pending.is_empty() && !bytes.is_empty() => {
                stream.pending = bytes;
                self.sending.push_back(id);
                true
            }
            _ => false,
        }
    }

    /// Ends the stream after its pending bytes.
    pub(super) fn finish(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(&id)
            && !std::mem::replace(&mut stream.finishing, true)
            && stream.pending.is_empty()
        {
            self.sending.push_back(id);
        }
    }

    /// Ends a stream at once.
    pub(super) fn reset(&mut self, id: u32, status: ResetStatus) {
        if self.forget(id) {
            self.put(&Frame::RstStream { id, status });
        }
    }

    /// Records that the reader of a stream took a piece of this length.
    pub(super) fn consumed(&mut self, id: u32, length: usize) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let cost = (length + PIECE_COST).min(stream.buffered);
        stream.buffered -= cost;
        self.buffered -= cost;
        stream.unacknowledged += length as u32;
        if stream.unacknowledged >= ANNOUNCE_AFTER && !stream.peer_finished {
            let delta = std::mem::take(&mut stream.unacknowledged);
            self.put(&Frame::WindowUpdate { id, delta });
        }
        self.consumed_of_connection(length);
        self.forget_if_over(id);
    }

    /// Declares that the stream has no reader any more.
    pub(super) fn stop_reading(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.unread = true;
        self.buffered -= std::mem::take(&mut stream.buffered);
        self.forget_if_over(id);
    }

    /// Sends a ping; its purpose is that writing fails when the peer has disappeared.
    pub(super) fn ping(&mut self) {
        if self.output.is_empty() {
            // The server's own pings have even numbers.
            self.put(&Frame::Ping { id: 2 });
        }
    }

    /// Announces that no new streams are accepted; `broken` if the peer is at fault.
    pub(super) fn go_away(&mut self, broken: bool) {
        self.put(&Frame::GoAway { last: self.highest, status: u32::from(broken) });
    }

    /// Returns true if no stream is left.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.streams.is_empty() && self.buffered == 0
    }

    fn put(&mut self, frame: &Frame) {
        frame.encode(&mut self.output);
    }

    fn consumed_of_connection(&mut self, length: usize) {
        self.unannounced += length as u32;
        if self.unannounced >= ANNOUNCE_AFTER {
            let delta = std::mem::take(&mut self.unannounced);
            self.put(&Frame::WindowUpdate { id: 0, delta });
        }
    }

    fn forget(&mut self, id: u32) -> bool {
        let Some(stream) = self.streams.remove(&id) else { return false };
        self.buffered -= stream.buffered;
        self.events.push_back(Event::Closed { id });
        true
    }

    fn forget_if_over(&mut self, id: u32) {
        if self.streams.get(&id).is_some_and(Stream::over) {
            self.forget(id);
        }
    }

    fn frame(&mut self, frame: Frame) -> Result<(), ConnectionError> {
        match frame {
            Frame::SynStream { id, fin, unidirectional, block, .. } => {
                // The block is read even if the stream is refused, because it is part of the compression
                // state.
                let headers = self.reader.read(&block)?;
                self.opened(id, headers, fin, unidirectional)?;
            }
            Frame::SynReply { id, fin, block } => {
                self.reader.read(&block)?;
                if self.streams.contains_key(&id) {
                    self.events.push_back(Event::Accepted { id });
                }
                self.peer_finished(id, fin);
            }
            Frame::Headers { id, fin, block } => {
                self.reader.read(&block)?;
                self.peer_finished(id, fin);
            }
            Frame::Data { id, fin, bytes } => self.data(id, fin, &bytes),
            Frame::RstStream { id, .. } => {
                self.forget(id);
            }
            Frame::Ping { id } => {
                if self.side.peer_owns(id) {
                    self.put(&Frame::Ping { id });
                }
            }
            Frame::Settings { entries } => {
                for (_, value) in entries.into_iter().filter(|(setting, _)| *setting == INITIAL_WINDOW_SIZE) {
                    self.initial_window(i64::from(value))?;
                }
            }
            Frame::WindowUpdate { id, delta } => self.window(id, i64::from(delta))?,
            // The peer opens no more streams; open ones end normally.
            Frame::GoAway { .. } | Frame::Unknown { .. } => {}
        }
        Ok(())
    }

    fn opened(
        &mut self,
        id: u32,
        headers: Headers,
        fin: bool,
        unidirectional: bool,
    ) -> Result<(), ConnectionError> {
        if id <= self.highest || !self.side.peer_owns(id) {
            return Err(ConnectionError::StreamId(id));
        }
        self.highest = id;
        if unidirectional {
            self.put(&Frame::RstStream { id, status: ResetStatus::PROTOCOL_ERROR });
        } else if self.side != Side::Server || self.streams.len() >= MAX_STREAMS {
            self.put(&Frame::RstStream { id, status: ResetStatus::REFUSED_STREAM });
        } else {
            self.streams.insert(id, Stream { send_window: self.initial_send_window, ..Stream::default() });
            self.events.push_back(Event::Opened { id, headers });
            self.peer_finished(id, fin);
        }
        Ok(())
    }

    fn peer_finished(&mut self, id: u32, fin: bool) {
        if let Some(stream) = self.streams.get_mut(&id).filter(|_| fin)
            && !std::mem::replace(&mut stream.peer_finished, true)
        {
            self.events.push_back(Event::Finished { id });
            self.forget_if_over(id);
        }
    }

    fn data(&mut self, id: u32, fin: bool, bytes: &Bytes) {
        let Some(stream) = self.streams.get_mut(&id) else {
            self.consumed_of_connection(bytes.len());
            // Frames that were in flight when a stream ended are no error.
            if id == 0 || (self.side.peer_owns(id) && id > self.highest) {
                self.put(&Frame::RstStream { id, status: ResetStatus::INVALID_STREAM });
            }
            return;
        };
        if stream.peer_finished {
            self.reset(id, ResetStatus::STREAM_ALREADY_CLOSED);
            return;
        }
        if stream.unread {
            self.consumed_of_connection(bytes.len());
        } else if !bytes.is_empty() {
            let cost = bytes.len() + PIECE_COST;
            stream.buffered += cost;
            self.buffered += cost;
            let bytes = if bytes.len() < SHORT_PIECE { Bytes::copy_from_slice(bytes) } else { bytes.clone() };
            self.events.push_back(Event::Data { id, bytes });
        }
        self.peer_finished(id, fin);
    }

    fn initial_window(&mut self, window: i64) -> Result<(), ConnectionError> {
        if window > MAX_WINDOW {
            return Err(ConnectionError::Window);
        }
        self.peer_has_windows = true;
        let change = window - self.initial_send_window;
        self.initial_send_window = window;
        for stream in self.streams.values_mut() {
            stream.send_window += change;
        }
        self.wake_senders();
        Ok(())
    }

    fn window(&mut self, id: u32, delta: i64) -> Result<(), ConnectionError> {
        self.peer_has_windows = true;
        if id == 0 {
            self.send_window += delta;
            if self.send_window > MAX_WINDOW {
                return Err(ConnectionError::Window);
            }
            self.wake_senders();
        } else if let Some(stream) = self.streams.get_mut(&id) {
            stream.send_window += delta;
            if stream.send_window > MAX_WINDOW {
                self.reset(id, ResetStatus::FLOW_CONTROL_ERROR);
            } else if stream.wants_to_send() && !self.sending.contains(&id) {
                self.sending.push_back(id);
            }
        }
        Ok(())
    }

    /// Resumes streams whose window was closed.
    fn wake_senders(&mut self) {
        let waiting = self.streams.iter().filter(|(id, s)| s.wants_to_send() && !self.sending.contains(id));
        let mut waiting: Vec<u32> = waiting.map(|(id, _)| *id).collect();
        waiting.order();
        self.sending.extend(waiting);
    }

    /// Moves pending bytes into the output, one frame per stream in turn, as far as they fit.
    fn fill(&mut self) {
        while self.output.len() < OUTPUT_BYTES
            && let Some(id) = self.sending.pop_front()
        {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            let mut count = stream.pending.len().min(MAX_DATA_BYTES);
            if self.peer_has_windows && count > 0 {
                let available = stream.send_window.min(self.send_window);
                count = count.min(usize::try_from(available).unwrap_or(0));
                if count == 0 {
                    // Waits until a window opens.
                    continue;
                }
            }
            let bytes = stream.pending.split_to(count);
            stream.send_window -= count as i64;
            self.send_window -= count as i64;
            let fin = stream.finishing && stream.pending.is_empty();
            stream.finished = fin;
            if !stream.pending.is_empty() {
                self.sending.push_back(id);
            } else if count > 0 {
                self.drained.push(id);
            }
            Frame::Data { id, fin, bytes }.encode(&mut self.output);
            self.forget_if_over(id);
        }
    }
}

#[cfg(test)]
mod tests;
