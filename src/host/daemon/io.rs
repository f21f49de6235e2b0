//! A container's own streams: pumped into its log and to attached clients.
//!
//! A full disk or a slow client makes the container wait at its full pipe; nothing piles up in memory.

use std::cell::{Cell, RefCell};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::child::Stdio;
use super::faults::Faults;
use super::log_writer::{LogWriter, Stream};
use super::pipe_end::{self, PipeEnd};
use super::terminals;
use crate::ContainerSpec;
use base::session::SessionOutput;

/// The time for which an attached client may stop reading before it is disconnected.
const STALLED: Duration = Duration::from_secs(10);

/// The amount of earlier output that is sent again: more than a user reads on a terminal.
const MAX_REPLAY_BYTES: u64 = 1 << 20;

/// A terminal has no half-close; its end-of-file character has the same meaning.
pub(super) const END_OF_FILE: &[u8] = &[4];

/// The host's side of a container's streams.
pub(super) struct Streams {
    /// The pipe or terminal that gets the input of attached clients.
    input: RefCell<Option<Rc<PipeEnd>>>,
    /// The terminal, if there is one.
    pub(super) terminal: Option<Rc<PipeEnd>>,
    taps: Rc<RefCell<Vec<AttachedClient>>>,
    /// True once the processes have exited: read the rest and stop.
    over: watch::Sender<bool>,
    pumps: RefCell<Vec<JoinHandle<()>>>,
    once: bool,
    /// The earlier output; none for a container of an earlier host.
    log: Option<Rc<RefCell<LogWriter>>>,
    /// A client has been attached.
    attached: Cell<bool>,
}

struct AttachedClient {
    sender: mpsc::Sender<SessionOutput>,
    stdout: bool,
    stderr: bool,
}

impl Streams {
    /// Creates the streams of a container of an earlier host: all are closed.
    pub(super) fn closed() -> Self {
        Self {
            input: RefCell::new(None),
            terminal: None,
            taps: Rc::default(),
            over: watch::Sender::new(true),
            pumps: RefCell::default(),
            once: false,
            log: None,
            attached: Cell::new(false),
        }
    }

    /// Opens a container's streams and log, and returns the child's side.
    pub(super) fn open(
        spec: &ContainerSpec,
        log: PathBuf,
        own_terminals: Option<&Path>,
        faults: &Faults,
    ) -> io::Result<(Self, Stdio)> {
        let log = Rc::new(RefCell::new(LogWriter::new(log)));
        let mut streams = Self {
            over: watch::Sender::new(false),
            once: spec.stdin_once,
            log: Some(Rc::clone(&log)),
            ..Self::closed()
        };
        if spec.tty {
            let (master, slave) = terminals::open(own_terminals)?;
            let terminal = Rc::new(PipeEnd::new(master)?);
            streams.pump(Rc::clone(&terminal), Stream::Stdout, log, faults);
            if spec.stdin {
                streams.input = RefCell::new(Some(Rc::clone(&terminal)));
            }
            streams.terminal = Some(terminal);
            return Ok((streams, Stdio::Terminal(slave)));
        }
        let stdin = if spec.stdin {
            let (read, write) = pipe_end::pipe()?;
            streams.input = RefCell::new(Some(Rc::new(PipeEnd::new(write)?)));
            read
        } else {
            pipe_end::nothing()?
        };
        let (stdout_read, stdout) = pipe_end::pipe()?;
        let (stderr_read, stderr) = pipe_end::pipe()?;
        streams.pump(Rc::new(PipeEnd::new(stdout_read)?), Stream::Stdout, Rc::clone(&log), faults);
        streams.pump(Rc::new(PipeEnd::new(stderr_read)?), Stream::Stderr, log, faults);
        Ok((streams, Stdio::Pipes { stdin, stdout, stderr }))
    }

    fn pump(&self, wire: Rc<PipeEnd>, stream: Stream, log: Rc<RefCell<LogWriter>>, faults: &Faults) {
        let log = Log { writer: log, faults: faults.clone() };
        let task = pump(wire, stream, log, Rc::clone(&self.taps), self.over.subscribe());
        self.pumps.borrow_mut().push(tokio::task::spawn_local(task));
    }

    /// Reads the remaining output of the ended processes, and ends the log.
    pub(super) async fn finish(&self) {
        self.over.send_replace(true);
        self.input.borrow_mut().take();
        let pumps = std::mem::take(&mut *self.pumps.borrow_mut());
        for pump in pumps {
            if let Err(error) = pump.await {
                eprintln!("log pump: {error}");
            }
        }
        if let Some(log) = &self.log {
            log.borrow_mut().close();
        }
    }

    /// See [`LogWriter::may_remove_at`].
    pub(super) fn log_may_be_removed_at(&self) -> Option<Instant> {
        self.log.as_ref().and_then(|log| log.borrow().may_remove_at())
    }

    /// Returns true if the processes have exited, or will in a moment.
    pub(super) fn are_over(&self) -> bool {
        *self.over.borrow()
    }

    /// Signals the end to attached clients.
    pub(super) fn hang_up(&self) {
        self.taps.borrow_mut().clear();
    }

    /// Returns the earlier output for the first client that attaches to a container that has just started, because that
    /// output appeared while the client was connecting. A client that attaches after the container's end gets only this
    /// output.
    pub(super) fn buffered_output(&self, just_started: bool) -> Vec<SessionOutput> {
        let first = !self.attached.replace(true);
        let log = self.log.as_ref().filter(|_| self.are_over() || (first && just_started));
        let buffered =
            log.map(|log| log.borrow().recent_output(MAX_REPLAY_BYTES)).transpose().unwrap_or_else(|error| {
                eprintln!("container log: {error}");
                None
            });
        let output = |(stream, text): (Stream, Vec<u8>)| match stream {
            Stream::Stdout => SessionOutput::Stdout(text.into()),
            Stream::Stderr => SessionOutput::Stderr(text.into()),
        };
        buffered.into_iter().flatten().map(output).collect()
    }

    /// Returns a copy of the output from now on.
    pub(super) fn tap(&self, stdout: bool, stderr: bool) -> mpsc::Receiver<SessionOutput> {
        let (sender, receiver) = mpsc::channel(16);
        if !*self.over.borrow() {
            self.taps.borrow_mut().push(AttachedClient { sender, stdout, stderr });
        }
        receiver
    }

    pub(super) fn input(&self) -> Option<Rc<PipeEnd>> {
        self.input.borrow().clone()
    }

    /// Returns the bytes that are written to the terminal once an attached client has no more input: an end-of-file
    /// character if `stdinOnce` is set, otherwise nothing, because a client that detaches must not end a shell.
    pub(super) fn end_of_input(&self) -> &'static [u8] {
        if self.once && self.terminal.is_some() { END_OF_FILE } else { &[] }
    }

    /// Handles the end of an attached client's input.
    pub(super) fn close_input(&self) {
        if self.once && self.terminal.is_none() {
            self.input.borrow_mut().take();
        }
    }
}

/// A container's log on the node's disk.
struct Log {
    writer: Rc<RefCell<LogWriter>>,
    faults: Faults,
}

impl Log {
    /// Takes a stream's output, to be written by [`Self::flush`].
    fn take(&self, stream: Stream, bytes: &[u8]) {
        self.writer.borrow_mut().take(stream, bytes, self.faults.now());
    }

    /// Waits until a rotation would remove only files that readers have had time to see. Meanwhile the program waits at
    /// its full pipe.
    async fn may_flush(&self) {
        let at = self.writer.borrow().may_flush_at();
        if let Some(at) = at {
            tokio::time::sleep_until(at).await;
        }
    }

    /// Like [`LogWriter::flush`], with the current fault of the disk.
    fn flush(&self) -> io::Result<()> {
        self.faults.admit()?;
        self.writer.borrow_mut().flush()
    }

    /// Ends the stream ([`LogWriter::end`]) and writes the rest.
    fn finish(&self, stream: Stream) -> io::Result<()> {
        self.writer.borrow_mut().end(stream, self.faults.now());
        self.flush()
    }
}

async fn pump(
    wire: Rc<PipeEnd>,
    stream: Stream,
    log: Log,
    taps: Rc<RefCell<Vec<AttachedClient>>>,
    mut over: watch::Receiver<bool>,
) {
    loop {
        let read = wire.next(&mut over, |bytes| {
            log.take(stream, bytes);
            (!taps.borrow().is_empty()).then(|| Bytes::copy_from_slice(bytes))
        });
        let Some(copy) = read.await else { break };
        tokio::select! {
            biased;
            () = async {
                log.faults.pass().await;
                log.may_flush().await;
            } => {}
            // The pod does not wait for the remaining output of an ended program.
            _ = over.wait_for(|over| *over) => {}
        }
        while let Err(error) = log.flush() {
            eprintln!("container log: {error}");
            if *over.borrow() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        if let Some(bytes) = copy {
            broadcast(&taps, stream, &bytes).await;
        }
    }
    if let Err(error) = log.finish(stream) {
        eprintln!("container log: {error}");
    }
}

/// Sends a chunk to every attached client; disconnects those that left or stopped reading.
async fn broadcast(taps: &RefCell<Vec<AttachedClient>>, stream: Stream, bytes: &Bytes) {
    let wants = |tap: &&AttachedClient| if stream == Stream::Stdout { tap.stdout } else { tap.stderr };
    let senders: Vec<_> = taps.borrow().iter().filter(wants).map(|tap| tap.sender.clone()).collect();
    for sender in senders {
        let piece = match stream {
            Stream::Stdout => SessionOutput::Stdout(bytes.clone()),
            Stream::Stderr => SessionOutput::Stderr(bytes.clone()),
        };
        if sender.send_timeout(piece, STALLED).await.is_err() {
            taps.borrow_mut().retain(|tap| !tap.sender.same_channel(&sender));
        }
    }
}
