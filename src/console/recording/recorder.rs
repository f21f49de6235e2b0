//! Records terminal input and API traffic.
//!
//! A thread writes, so that the console never waits for a disk. If it falls behind, or the recording reaches its
//! maximum size, the recording ends there and the user is informed.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossterm::event::Event;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::connection_ids::ConnectionIds;
use super::format::{Line, MAX_BYTES, RecordedEvent, SessionHeader};
use super::terminals::TerminalEvent;
use base::task::{BlockingTask, blocking};
use console_data::context::ScreenId;
use console_operations::pane::PaneEvent;

/// Bytes reserved for the line with the reason of the end.
const END_LINE_BYTES: u64 = 1024;
/// The number of lines that may wait to be written.
const WAITING: usize = 16 * 1024;

/// A handle to a recording in progress.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    started: Instant,
    next: Arc<AtomicU64>,
    /// `None` once the recording has ended.
    lines: Arc<Mutex<Option<mpsc::Sender<Box<Line>>>>>,
    /// The reason why the recording ended before the session.
    ended: Arc<Mutex<Option<String>>>,
    connection_ids: Arc<Mutex<ConnectionIds>>,
    /// The connection of the requests that it records; 0 is the first.
    connection: u64,
}

/// The writer of a recording.
#[derive(Debug)]
pub(crate) struct Session {
    recorder: Recorder,
    writer: BlockingTask<io::Result<()>>,
}

impl Session {
    /// Creates the file, which must not exist.
    pub(crate) fn begin(path: &Path, beginning: SessionHeader) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let (lines, waiting) = mpsc::channel(WAITING);
        let recorder = Recorder {
            started: Instant::now(),
            next: Arc::default(),
            lines: Arc::new(Mutex::new(Some(lines))),
            ended: Arc::default(),
            connection_ids: Arc::default(),
            connection: 0,
        };
        let ended = recorder.ended.clone();
        let writer = blocking(move || write(file, waiting, &ended));
        recorder.record(RecordedEvent::Start(beginning));
        Ok(Self { recorder, writer })
    }

    /// Returns a handle for recording events.
    pub(crate) fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Writes pending lines. An error says why the recording ends before the session.
    pub(crate) async fn end(self) -> Result<(), String> {
        self.recorder.lines.lock().take();
        match self.writer.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(error.to_string()),
            Err(error) => return Err(error.to_string()),
        }
        self.recorder.ended.lock().take().map_or(Ok(()), Err)
    }
}

impl Recorder {
    /// Records terminal input.
    pub(crate) fn input(&self, event: &Event) {
        self.record(RecordedEvent::Input(event.clone()));
    }

    /// Records that a screen opens a terminal.
    pub(crate) fn terminal_begins(&self, screen: ScreenId) {
        let id = self.connection_ids.lock().terminals.begin(screen);
        self.record(RecordedEvent::Terminal { id, event: TerminalEvent::Began });
    }

    /// Records an event of a screen's terminal. Output of local programs is not recorded.
    pub(crate) fn record_terminal_event(&self, screen: ScreenId, event: &PaneEvent) {
        let Some(id) = self.connection_ids.lock().terminals.of(screen) else { return };
        self.record(RecordedEvent::Terminal { id, event: event.into() });
    }

    /// Returns a handle that records the requests of another connection.
    pub(super) fn over(&self, connection: u64) -> Self {
        Self { connection, ..self.clone() }
    }

    /// Returns the connection of the requests that it records.
    pub(super) fn connection(&self) -> u64 {
        self.connection
    }

    /// Returns the state about other clusters, terminals and port-forwards.
    pub(super) fn connection_ids(&self) -> &Mutex<ConnectionIds> {
        &self.connection_ids
    }

    /// Returns the milliseconds since the start.
    pub(super) fn elapsed(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the number of a new request.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Records an event at the present time.
    pub(super) fn record(&self, event: RecordedEvent) {
        self.record_at(self.elapsed(), event);
    }

    /// Records an event at this many milliseconds after the start.
    pub(super) fn record_at(&self, at: u64, event: RecordedEvent) {
        let mut lines = self.lines.lock();
        let Some(sender) = lines.as_ref() else { return };
        if let Err(error) = sender.try_send(Box::new(Line { at, what: event })) {
            // A missing line would change the meaning of all lines after it.
            *lines = None;
            if let mpsc::error::TrySendError::Full(_) = error {
                self.ended.lock().get_or_insert_with(|| "the disk was too slow".into());
            }
        }
    }
}

fn write(
    file: File,
    mut waiting: mpsc::Receiver<Box<Line>>,
    ended: &Mutex<Option<String>>,
) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    let mut left = MAX_BYTES - END_LINE_BYTES;
    while let Some(line) = waiting.blocking_recv() {
        let mut text = serde_json::to_vec(&line).map_err(io::Error::other)?;
        text.push(b'\n');
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if length > left {
            let reason = format!("it reached the size limit of {} MiB", MAX_BYTES / 1024 / 1024);
            // The replay shows the reason; space is reserved for it.
            let last = Line { at: line.at, what: RecordedEvent::Ended { why: reason.clone() } };
            serde_json::to_writer(&mut out, &last).map_err(io::Error::other)?;
            out.write_all(b"\n")?;
            *ended.lock() = Some(reason);
            break;
        }
        left -= length;
        out.write_all(&text)?;
        if waiting.is_empty() {
            out.flush()?;
        }
    }
    out.flush()
}
