//! The file format of a recording: one JSON line per event, with its time.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use crossterm::event::Event;
use flate2::bufread::MultiGzDecoder;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::connect_events::{self, Attempt, ConnectEvent};
use super::connection_ids::append;
use super::key_bindings::RecordedBindings;
use super::terminals::{self, TerminalEvent};
use console_screens::forwards::forwarder::Report;

/// The version of new files.
pub(crate) const VERSION: u32 = 3;
/// The first version with terminals.
pub(super) const WITH_TERMINALS: u32 = 2;
/// The first version with port-forwards and further clusters.
pub(super) const WITH_OTHERS: u32 = 3;
/// The maximum size of a recording in bytes, because it is read into memory.
pub(super) const MAX_BYTES: u64 = 256 * 1024 * 1024;
/// The magic bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// One line of the file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Line {
    /// Milliseconds since the start.
    pub(super) at: u64,
    #[serde(flatten)]
    pub(super) what: RecordedEvent,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum RecordedEvent {
    /// The first line.
    #[serde(rename = "begun")]
    Start(SessionHeader),
    /// Input from the terminal.
    Input(Event),
    /// A request to the API. A line without `connection` means the connection to the first cluster.
    #[serde(rename = "asked")]
    Request {
        id: u64,
        #[serde(default, skip_serializing_if = "is_first")]
        connection: u64,
        method: String,
        path: String,
    },
    /// The start of the response.
    Answered { id: u64, status: u16, content_type: Option<String> },
    /// A chunk of a response.
    #[serde(rename = "told")]
    Chunk { id: u64, text: String },
    /// A chunk that is not UTF-8, in base64.
    #[serde(rename = "toldBytes")]
    BinaryChunk { id: u64, bytes: String },
    /// The end of the response; `broken` if it is incomplete.
    Over { id: u64, broken: bool },
    Terminal {
        id: u64,
        #[serde(rename = "told")]
        event: TerminalEvent,
    },
    /// The contexts of the kubeconfig, read for completion, or because they are `shown`.
    Contexts { shown: bool, listed: connect_events::Contexts },
    /// An event of an attempt to connect to another cluster.
    Reached {
        id: u64,
        #[serde(rename = "told")]
        event: ConnectEvent,
    },
    /// A report on a port-forward; without a report, the screen of port-forwards opens.
    Forwards {
        id: u64,
        #[serde(rename = "told")]
        report: Option<Report>,
    },
    /// The end of the recording before the end of the session, and the reason.
    Ended { why: String },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_first(connection: &u64) -> bool {
    *connection == 0
}

/// The start of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionHeader {
    pub(crate) version: u32,
    pub(crate) now: Timestamp,
    pub(crate) columns: u16,
    pub(crate) rows: u16,
    pub(crate) cluster: String,
    pub(crate) origin: String,
    pub(crate) namespace: Option<String>,
    /// The context of the kubeconfig for the cluster, if there is one.
    #[serde(default)]
    pub(crate) context: Option<String>,
    pub(crate) theme: String,
    pub(crate) read_only: bool,
    /// The keys that the user had bound.
    #[serde(default, skip_serializing_if = "RecordedBindings::is_empty")]
    pub(crate) keys: RecordedBindings,
}

/// A request and its response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Exchange {
    /// The time of the response's start, its status and content type; `None` without a response.
    pub(super) answered: Option<(Duration, u16, Option<String>)>,
    /// The chunks, with their times.
    pub(super) chunks: Vec<(Duration, Bytes)>,
    /// The time of the response's end, and whether it was broken off; `None` if it had not ended.
    pub(super) over: Option<(Duration, bool)>,
}

/// A recorded session.
#[derive(Debug)]
pub struct Recording {
    pub(super) beginning: SessionHeader,
    /// The terminal input, in order.
    pub(super) inputs: Vec<(Duration, Event)>,
    /// The requests, in order: connection, method and path, and the exchange.
    pub(super) exchanges: Vec<(u64, (String, String), Exchange)>,
    /// The events of terminals, in the order in which they were opened.
    pub(super) terminals: Vec<terminals::TerminalEvents>,
    /// The attempts to connect to other clusters, in order.
    pub(super) attempts: Vec<Attempt>,
    /// The contexts of the kubeconfig, each time they were read for completion, and each time they were shown.
    pub(super) contexts: Vec<(Duration, connect_events::Contexts)>,
    pub(super) displayed_contexts: Vec<(Duration, connect_events::Contexts)>,
    /// The reports on port-forwards, in the order in which their screens were opened.
    pub(super) forwards: Vec<Vec<(Duration, Report)>>,
    /// The reason why the recording ends before the session.
    pub(super) ended: Option<String>,
    /// The time of the last event.
    pub(super) duration: Duration,
}

/// The error of reading a recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// A line is invalid.
    #[error("line {line}: {why}")]
    Line {
        /// The line number, from 1.
        line: usize,
        /// The error.
        why: String,
    },
    /// The file exceeds the size limit.
    #[error("the file is larger than {} MiB", MAX_BYTES / 1024 / 1024)]
    TooLarge,
    /// Another version of this program wrote it.
    #[error("version {0} is not supported; this podium reads up to version {VERSION}")]
    Version(u32),
    /// The file has no first line.
    #[error("the file is empty")]
    Empty,
}

impl Recording {
    /// Reads a file, compressed with gzip or not.
    pub fn read(path: &Path) -> Result<Self, RecordingError> {
        let mut file = BufReader::new(std::fs::File::open(path)?);
        if file.fill_buf()?.starts_with(&GZIP) {
            Self::parse_within(MAX_BYTES, BufReader::new(MultiGzDecoder::new(file)))
        } else {
            Self::parse_within(MAX_BYTES, file)
        }
    }

    /// Reads lines up to this many bytes, because compressed data may expand to any size.
    fn parse_within(most: u64, text: impl BufRead) -> Result<Self, RecordingError> {
        let mut text = text.take(most + 1);
        let parsed = Self::parse(&mut text);
        if text.limit() == 0 { Err(RecordingError::TooLarge) } else { parsed }
    }

    /// Parses lines. The last one may be truncated, because the session may have been killed.
    pub(super) fn parse(text: impl BufRead) -> Result<Self, RecordingError> {
        let mut lines = text.lines().enumerate().peekable();
        let (mut header, mut inputs, mut exchanges) = (None, Vec::new(), Vec::new());
        let (mut terminals, mut ended) = (Vec::new(), None);
        let (mut attempts, mut forwards) = (Vec::new(), Vec::new());
        let (mut contexts, mut shown_contexts) = (Vec::new(), Vec::new());
        let (mut place, mut lasts) = (HashMap::new(), Duration::ZERO);
        while let Some((number, text)) = lines.next() {
            let text = text?;
            let bad = |why: String| RecordingError::Line { line: number + 1, why };
            let line: Line = match serde_json::from_str(&text) {
                Ok(line) => line,
                Err(_) if lines.peek().is_none() && header.is_some() => break,
                Err(error) => return Err(bad(error.to_string())),
            };
            let at = Duration::from_millis(line.at);
            lasts = lasts.max(at);
            let unknown = |id: u64| bad(format!("unknown request {id}"));
            let of = |id: u64| place.get(&id).copied().ok_or_else(|| unknown(id));
            match line.what {
                RecordedEvent::Start(beginning) if header.is_some() => {
                    return Err(bad(format!("a second session begins at {}", beginning.now)));
                }
                RecordedEvent::Start(beginning) if !(1..=VERSION).contains(&beginning.version) => {
                    return Err(RecordingError::Version(beginning.version));
                }
                RecordedEvent::Start(beginning) => header = Some(beginning),
                _ if header.is_none() => return Err(bad("no session begins before this line".into())),
                RecordedEvent::Input(event) => inputs.push((at, event)),
                RecordedEvent::Request { id, connection, method, path } => {
                    place.insert(id, exchanges.len());
                    exchanges.push((connection, (method, path), Exchange::default()));
                }
                RecordedEvent::Answered { id, status, content_type } => {
                    exchanges[of(id)?].2.answered = Some((at, status, content_type));
                }
                RecordedEvent::Chunk { id, text } => {
                    exchanges[of(id)?].2.chunks.push((at, Bytes::from(text)));
                }
                RecordedEvent::BinaryChunk { id, bytes } => {
                    let bytes = STANDARD.decode(bytes).map_err(|error| bad(error.to_string()))?;
                    exchanges[of(id)?].2.chunks.push((at, Bytes::from(bytes)));
                }
                RecordedEvent::Over { id, broken } => exchanges[of(id)?].2.over = Some((at, broken)),
                RecordedEvent::Terminal { id, event } => {
                    terminals::take(&mut terminals, at, id, event).map_err(bad)?;
                }
                RecordedEvent::Contexts { shown: true, listed } => shown_contexts.push((at, listed)),
                RecordedEvent::Contexts { shown: false, listed } => contexts.push((at, listed)),
                RecordedEvent::Reached { id, event } => {
                    connect_events::take(&mut attempts, at, id, event).map_err(bad)?;
                }
                RecordedEvent::Forwards { id, report } => {
                    append(&mut forwards, "port-forward screen", at, id, report).map_err(bad)?;
                }
                RecordedEvent::Ended { why } => ended = Some(why),
            }
        }
        let beginning = header.ok_or(RecordingError::Empty)?;
        Ok(Self {
            beginning,
            inputs,
            exchanges,
            terminals,
            attempts,
            contexts,
            displayed_contexts: shown_contexts,
            forwards,
            ended,
            duration: lasts,
        })
    }
}

/// Returns the event for a chunk of a response.
pub(super) fn chunk_event(id: u64, bytes: &Bytes) -> RecordedEvent {
    match std::str::from_utf8(bytes) {
        Ok(text) => RecordedEvent::Chunk { id, text: text.to_owned() },
        Err(_) => RecordedEvent::BinaryChunk { id, bytes: STANDARD.encode(bytes) },
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use crossterm::event::{KeyCode, KeyEvent};

    use super::*;

    pub(crate) fn beginning() -> SessionHeader {
        SessionHeader {
            version: VERSION,
            now: "2026-11-26T06:00:00Z".parse().unwrap(),
            columns: 80,
            rows: 24,
            cluster: "kind".into(),
            origin: "10.0.0.1:6443".into(),
            namespace: Some("default".into()),
            context: Some("kind-dev".into()),
            theme: "night".into(),
            read_only: false,
            keys: [("delete".to_owned(), vec!["ctrl-x".to_owned()])].into(),
        }
    }

    fn text(lines: Vec<RecordedEvent>) -> String {
        let line = |(number, what)| {
            serde_json::to_string(&Line { at: 10 * u64::try_from(number).unwrap(), what }).unwrap() + "\n"
        };
        lines.into_iter().enumerate().map(line).collect()
    }

    fn session() -> Vec<RecordedEvent> {
        vec![
            RecordedEvent::Start(beginning()),
            RecordedEvent::Request { id: 7, connection: 0, method: "GET".into(), path: "/version".into() },
            RecordedEvent::Input(Event::Key(KeyEvent::from(KeyCode::Char('p')))),
            RecordedEvent::Answered { id: 7, status: 200, content_type: Some("application/json".into()) },
            chunk_event(7, &Bytes::from_static(b"{\"a\":")),
            chunk_event(7, &Bytes::from_static(b"\xff}")),
            RecordedEvent::Over { id: 7, broken: false },
        ]
    }

    #[test]
    fn a_written_recording_is_read_back_con_21() {
        let recording = Recording::parse(text(session()).as_bytes()).unwrap();
        assert_eq!(recording.beginning, beginning());
        let ms = Duration::from_millis;
        assert_eq!(recording.inputs, [(ms(20), Event::Key(KeyEvent::from(KeyCode::Char('p'))))]);
        let exchange = Exchange {
            answered: Some((ms(30), 200, Some("application/json".into()))),
            chunks: vec![(ms(40), Bytes::from_static(b"{\"a\":")), (ms(50), Bytes::from_static(b"\xff}"))],
            over: Some((ms(60), false)),
        };
        assert_eq!(recording.exchanges, [(0, ("GET".to_owned(), "/version".to_owned()), exchange)]);
        assert_eq!(recording.duration, ms(60));
    }

    #[test]
    fn terminal_events_are_read_in_order_con_21() {
        use console_operations::pane::{Outcome, PaneEvent};
        let opened = PaneEvent::Opened { container: "main".into(), tty: true, stdin: true };
        let printed = PaneEvent::Output(Bytes::from_static(b"\x1b[1m$ \xff"));
        let ended = PaneEvent::Ended(Outcome::Exited(3));
        let recorded = |id: u64, event: &PaneEvent| RecordedEvent::Terminal { id, event: event.into() };
        let began = |id: u64| RecordedEvent::Terminal { id, event: TerminalEvent::Began };
        let lines = vec![
            RecordedEvent::Start(beginning()),
            began(0),
            recorded(0, &opened),
            began(1),
            recorded(0, &printed),
            recorded(1, &ended),
            RecordedEvent::Ended { why: "enough".into() },
        ];
        let recording = Recording::parse(text(lines).as_bytes()).unwrap();
        let ms = Duration::from_millis;
        assert_eq!(
            recording.terminals,
            [vec![(ms(20), opened), (ms(40), printed)], vec![(ms(50), ended.clone())]]
        );
        assert_eq!(recording.ended.as_deref(), Some("enough"));
        for (lines, why) in [
            (vec![began(1)], "line 2: terminal 1 is out of order"),
            (vec![began(0), began(0)], "line 3: terminal 0 is out of order"),
            (vec![recorded(0, &ended)], "line 2: unknown terminal 0"),
            (vec![recorded(u64::MAX, &ended)], "line 2: unknown terminal 18446744073709551615"),
        ] {
            let lines = std::iter::once(RecordedEvent::Start(beginning())).chain(lines).collect();
            assert_eq!(Recording::parse(text(lines).as_bytes()).unwrap_err().to_string(), why);
        }
    }

    #[test]
    fn a_compressed_recording_is_read_within_its_limit_con_21() {
        let (dir, plain) = (tempfile::tempdir().unwrap(), text(session()));
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(plain.as_bytes()).unwrap();
        let packed = packer.finish().unwrap();
        for (name, bytes) in [("plain", plain.as_bytes()), ("packed", packed.as_slice())] {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(Recording::read(&path).unwrap().duration, Duration::from_millis(60), "{name}");
        }
        // A truncated gzip file is invalid, because its end cannot be distinguished from that of a whole one.
        let cut = dir.path().join("cut");
        std::fs::write(&cut, &packed[..packed.len() - 9]).unwrap();
        assert!(matches!(Recording::read(&cut), Err(RecordingError::File(_))));
        let size = plain.len() as u64;
        assert!(Recording::parse_within(size, plain.as_bytes()).is_ok());
        let over = Recording::parse_within(size - 1, plain.as_bytes());
        assert!(matches!(over, Err(RecordingError::TooLarge)));
    }

    #[test]
    fn an_invalid_recording_is_rejected_with_its_line_con_21() {
        let error_of = |text: &str| Recording::parse(text.as_bytes()).map(|_| ()).unwrap_err().to_string();
        assert_eq!(error_of(""), "the file is empty");
        assert!(error_of("{}\n{}\n").starts_with("line 1: "), "{}", error_of("{}\n{}\n"));
        let mut other = session();
        other[0] = RecordedEvent::Start(SessionHeader { version: 9, ..beginning() });
        assert_eq!(error_of(&text(other)), "version 9 is not supported; this podium reads up to version 3");
        assert_eq!(error_of(&text(session().split_off(1))), "line 1: no session begins before this line");
        let stray = vec![RecordedEvent::Start(beginning()), RecordedEvent::Over { id: 3, broken: true }];
        assert_eq!(error_of(&text(stray)), "line 2: unknown request 3");
        // A killed session leaves its last line incomplete.
        let cut = text(session());
        let cut = &cut[..cut.len() - 5];
        assert!(Recording::parse(cut.as_bytes()).unwrap().exchanges[0].2.over.is_none());
    }
}
