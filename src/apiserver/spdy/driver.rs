//! A SPDY connection on a socket: one task owns its state; handles to streams communicate with it.
//!
//! A reader that stops reading holds its peer back once the connection's buffer is full; a writer waits until
//! its bytes are in the output. When every handle is dropped, the connection ends in order.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};

use super::connection::{Connection, Event, MAX_STREAMS, Side};
use super::frame::ResetStatus;
use super::headers::Headers;

const READ_BYTES: usize = 32 << 10;

/// The time without reading after which a peer is pinged.
const PING_AFTER: Duration = Duration::from_secs(5);

/// The time for the peer to read the end and hang up. Closing earlier, while its own bytes still arrive,
/// would make the kernel discard output that it has not read.
const LINGER: Duration = Duration::from_secs(10);

/// The stream is closed: reset, or with the whole connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream was closed")]
pub(crate) struct StreamClosed;

/// The streams that the peer opens.
pub(crate) struct Streams {
    offers: mpsc::Receiver<IncomingStream>,
    _open: mpsc::UnboundedSender<Command>,
}

impl Streams {
    /// Returns the next stream; `None` if the connection is closed.
    pub(crate) async fn next(&mut self) -> Option<IncomingStream> {
        self.offers.recv().await
    }
}

/// A stream that the peer wants to open; dropping it refuses the stream.
pub(crate) struct IncomingStream {
    /// The stream's headers from the peer.
    pub(crate) headers: Headers,
    stream: Option<(Reader, Writer)>,
    commands: mpsc::UnboundedSender<Command>,
    id: u32,
}

impl IncomingStream {
    /// Returns the stream's number.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Opens it.
    pub(crate) fn accept(mut self) -> Option<(Reader, Writer)> {
        let stream = self.stream.take();
        if stream.is_some() {
            // If the connection is closed, reading and writing fail.
            let _ = self.commands.send(Command::Accept(self.id));
        }
        stream
    }
}

impl Drop for IncomingStream {
    fn drop(&mut self) {
        if self.stream.is_some() {
            let _ = self.commands.send(Command::Reset(self.id, ResetStatus::REFUSED_STREAM));
        }
    }
}

/// The incoming half of a stream.
pub(crate) struct Reader {
    id: u32,
    pieces: mpsc::UnboundedReceiver<StreamChunk>,
    commands: mpsc::UnboundedSender<Command>,
    ended: bool,
}

enum StreamChunk {
    Data(Bytes),
    End,
}

impl Reader {
    /// Returns the next bytes; `None` after the peer's last. Cancelling the future loses no bytes.
    pub(crate) async fn read(&mut self) -> Result<Option<Bytes>, StreamClosed> {
        if self.ended {
            return Ok(None);
        }
        match self.pieces.recv().await {
            Some(StreamChunk::Data(bytes)) => {
                let _ = self.commands.send(Command::Consumed(self.id, bytes.len()));
                Ok(Some(bytes))
            }
            Some(StreamChunk::End) => {
                self.ended = true;
                Ok(None)
            }
            None => Err(StreamClosed),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::StopReading(self.id));
    }
}

/// The outgoing half of a stream; dropping it ends the stream.
pub(crate) struct Writer {
    id: u32,
    commands: mpsc::UnboundedSender<Command>,
}

impl Writer {
    /// Sends bytes; returns once they are in the output.
    pub(crate) async fn write(&mut self, bytes: Bytes) -> Result<(), StreamClosed> {
        if bytes.is_empty() {
            return Ok(());
        }
        let (sent, done) = oneshot::channel();
        self.commands.send(Command::Write(self.id, bytes, sent)).map_err(|_| StreamClosed)?;
        done.await.map_err(|_| StreamClosed)
    }

    /// Ends the stream in both directions at once.
    pub(crate) fn reset(self) {
        let _ = self.commands.send(Command::Reset(self.id, ResetStatus::CANCEL));
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Finish(self.id));
    }
}

enum Command {
    Accept(u32),
    Write(u32, Bytes, oneshot::Sender<()>),
    Finish(u32),
    Reset(u32, ResetStatus),
    Consumed(u32, usize),
    StopReading(u32),
}

/// Returns the peer's streams, and the future that serves the socket: the streams work only while it runs.
pub(crate) fn serve<S>(socket: S) -> (Streams, impl Future<Output = ()> + Send)
where
    S: AsyncRead + AsyncWrite + Send,
{
    // Unbounded in type only: each open stream has at most one outstanding command without a reply.
    let (commands, inbox) = mpsc::unbounded_channel();
    let (offers, offered) = mpsc::channel(MAX_STREAMS);
    let state = Driver {
        connection: Connection::new(Side::Server),
        streams: HashMap::new(),
        offers,
        commands: commands.downgrade(),
    };
    (Streams { offers: offered, _open: commands }, state.drive(socket, inbox))
}

struct Driver {
    connection: Connection,
    streams: HashMap<u32, Handle>,
    offers: mpsc::Sender<IncomingStream>,
    commands: mpsc::WeakUnboundedSender<Command>,
}

#[derive(Default)]
struct Handle {
    pieces: Option<mpsc::UnboundedSender<StreamChunk>>,
    writing: Option<oneshot::Sender<()>>,
}

impl Driver {
    async fn drive<S>(mut self, socket: S, mut inbox: mpsc::UnboundedReceiver<Command>)
    where
        S: AsyncRead + AsyncWrite + Send,
    {
        let (mut reader, mut writer) = tokio::io::split(socket);
        let mut buffer = vec![0; READ_BYTES];
        let (mut unflushed, mut broken) = (false, false);
        loop {
            self.deliver();
            let (reads, writes) = (self.connection.wants_input(), !self.connection.output().is_empty());
            self.acknowledge();
            tokio::select! {
                // A peer that is not read from is pinged: only writing detects that it has disappeared.
                () = tokio::time::sleep(PING_AFTER), if !reads => self.connection.ping(),
                command = inbox.recv() => match command {
                    Some(command) => self.command(command),
                    None => break,
                },
                read = reader.read(&mut buffer), if reads => match read {
                    Ok(count) if count > 0 => {
                        if let Err(error) = self.connection.receive(&buffer[..count]) {
                            tracing::debug!("SPDY: {error}");
                            broken = true;
                            break;
                        }
                    }
                    _ => return,
                },
                wrote = push(&mut writer, self.connection.output()), if writes || unflushed => match wrote {
                    Ok(()) => unflushed = writes,
                    Err(_) => return,
                },
            }
        }
        // Bytes that were given to streams are sent before the connection's own end.
        self.streams.clear();
        drop(inbox);
        self.connection.output();
        self.connection.go_away(broken);
        let ending = end(&mut reader, &mut writer, &mut self.connection, &mut buffer);
        let _ = tokio::time::timeout(LINGER, ending).await;
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Accept(id) => {
                if let Err(error) = self.connection.accept(id) {
                    tracing::debug!("SPDY: {error}");
                    self.connection.reset(id, ResetStatus::CANCEL);
                }
            }
            Command::Write(id, bytes, sent) => {
                if self.connection.send(id, bytes)
                    && let Some(handle) = self.streams.get_mut(&id)
                {
                    handle.writing = Some(sent);
                }
            }
            Command::Finish(id) => self.connection.finish(id),
            Command::Reset(id, status) => self.connection.reset(id, status),
            Command::Consumed(id, length) => self.connection.consumed(id, length),
            Command::StopReading(id) => {
                self.connection.stop_reading(id);
                if let Some(handle) = self.streams.get_mut(&id) {
                    handle.pieces = None;
                }
            }
        }
    }

    /// Delivers the peer's actions to their streams.
    fn deliver(&mut self) {
        while let Some(event) = self.connection.next_event() {
            match event {
                Event::Opened { id, headers } => self.offer(id, headers),
                Event::Data { id, bytes } => self.piece(id, StreamChunk::Data(bytes)),
                Event::Finished { id } => {
                    self.piece(id, StreamChunk::End);
                    if let Some(handle) = self.streams.get_mut(&id) {
                        handle.pieces = None;
                    }
                }
                Event::Closed { id } => {
                    self.streams.remove(&id);
                }
                Event::Accepted { .. } => {}
            }
        }
    }

    fn piece(&mut self, id: u32, piece: StreamChunk) {
        // A dropped reader has been reported already.
        if let Some(pieces) = self.streams.get(&id).and_then(|handle| handle.pieces.as_ref()) {
            let _ = pieces.send(piece);
        }
    }

    fn offer(&mut self, id: u32, headers: Headers) {
        let Some(commands) = self.commands.upgrade() else { return };
        let (pieces, received) = mpsc::unbounded_channel();
        let reader = Reader { id, pieces: received, commands: commands.clone(), ended: false };
        let writer = Writer { id, commands: commands.clone() };
        self.streams.insert(id, Handle { pieces: Some(pieces), writing: None });
        let offer = IncomingStream { headers, stream: Some((reader, writer)), commands, id };
        // The receiver was dropped, or too many streams wait: dropping the offer refuses it.
        let _ = self.offers.try_send(offer);
    }

    /// Notifies writers that they may continue.
    fn acknowledge(&mut self) {
        for id in self.connection.take_drained() {
            if let Some(sent) = self.streams.get_mut(&id).and_then(|handle| handle.writing.take()) {
                let _ = sent.send(());
            }
        }
    }
}

/// Writes some of the output, or flushes earlier writes.
async fn push<W: AsyncWrite + Unpin>(writer: &mut W, output: &mut BytesMut) -> io::Result<()> {
    if output.is_empty() { writer.flush().await } else { writer.write_buf(output).await.map(drop) }
}

/// Writes the remaining output, closes, and reads until the peer closes too.
async fn end<R, W>(
    reader: &mut R,
    writer: &mut W,
    connection: &mut Connection,
    buffer: &mut [u8],
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let write = async {
        while !connection.output().is_empty() {
            writer.write_buf(connection.output()).await?;
        }
        writer.shutdown().await
    };
    let read = async {
        while reader.read(buffer).await? > 0 {}
        io::Result::Ok(())
    };
    tokio::try_join!(write, read).map(drop)
}
