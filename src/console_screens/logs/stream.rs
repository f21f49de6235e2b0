//! Reads one run of a container to its end. A broken connection is resumed at the latest timestamp, and the lines that
//! were received from there on are counted, so that no line is lost or duplicated.

use std::sync::Arc;
use std::time::Duration;

use futures::AsyncBufRead;
use futures::io::AsyncBufReadExt;
use jiff::Timestamp;
use kube::Api;
use kube::api::LogParams;
use tokio::sync::mpsc;

use super::container_runs::{ContainerRun, Note, is_latest, still_runs};
use super::outage::{LOST, Outage};
use super::selection::LogSelection;
use console_data::action::{error_text, is_connection_error};
use console_data::decoded::JsonObject;
use console_operations::effect::LogStart;
use console_toolkit::log_line::LogLine;

/// Maximum length of a line in bytes; longer lines are cut.
const LINE_BYTES: usize = 64 * 1024;
/// Pause before a broken stream is resumed.
const RECONNECT: Duration = Duration::from_secs(1);

/// Reads one run to its end, over several connections if necessary. Notes about its end are shown after its last line.
pub(super) async fn read_run(
    api: Api<JsonObject>,
    run: ContainerRun,
    mut notes: mpsc::Receiver<Note>,
    follow: LogSelection,
    lines: mpsc::Sender<Vec<LogLine>>,
    outage: Outage,
) {
    let Ok(mut note) = read_to_end(&api, &run, &mut notes, &follow, &lines, &outage).await else { return };
    // A note that is not in the channel yet is no longer accepted: its sender shows it.
    notes.close();
    while let Some(Note { source, text, .. }) = next_note(&mut note, &mut notes).await {
        if lines.send(vec![LogLine::note(&source, text)]).await.is_err() {
            return;
        }
    }
}

async fn next_note(first: &mut Option<Note>, notes: &mut mpsc::Receiver<Note>) -> Option<Note> {
    match first.take() {
        Some(note) => Some(note),
        None => notes.recv().await,
    }
}

/// Reads until the run has ended; returns the first note about its end, if it has arrived.
async fn read_to_end(
    api: &Api<JsonObject>,
    run: &ContainerRun,
    notes: &mut mpsc::Receiver<Note>,
    follow: &LogSelection,
    lines: &mpsc::Sender<Vec<LogLine>>,
    outage: &Outage,
) -> Result<Option<Note>, ReceiverDropped> {
    let mut position = LogPosition::default();
    let mut complaint = String::new();
    let mut note = None;
    loop {
        // The run had ended before this connection, which therefore has the rest of the log.
        note = note.or_else(|| notes.try_recv().ok());
        let before = position.latest;
        let mut params = LogParams {
            container: Some(run.container.clone()),
            follow: !follow.previous,
            previous: follow.previous,
            timestamps: true,
            ..LogParams::default()
        };
        match position.latest {
            // The server takes whole seconds, so that reading resumes one second before the latest line; lines that
            // were already read are skipped below.
            Some(at) => params.since_time = at.checked_sub(jiff::SignedDuration::from_secs(1)).ok(),
            None => match follow.start {
                LogStart::Tail(count) => params.tail_lines = Some(count),
                LogStart::Since(seconds) => params.since_seconds = Some(seconds),
                LogStart::Head => {}
            },
        }
        let read = match api.log_stream(&run.pod, &params).await {
            Ok(stream) => {
                outage.end();
                read_stream(stream, &run.source, &mut position, lines).await
            }
            Err(error) if is_connection_error(&error) => Err(StreamEnd::Broken),
            Err(error) => Err(StreamEnd::Refused(error_text(&error))),
        };
        if position.latest != before {
            complaint.clear();
        }
        let is_broken = matches!(read, Err(StreamEnd::Broken));
        let is_complete = match read {
            Err(StreamEnd::ReceiverDropped) => return Err(ReceiverDropped),
            Err(end) => {
                let (text, note) = match end {
                    StreamEnd::Refused(text) => (text.clone(), Some(LogLine::note(&run.source, text))),
                    _ => (LOST.to_owned(), outage.begin()),
                };
                // While the server is gone, each attempt ends in the same way.
                if text != complaint {
                    complaint = text;
                    if let Some(note) = note {
                        lines.send(vec![note]).await.map_err(|_| ReceiverDropped)?;
                    }
                }
                false
            }
            Ok(()) => true,
        };
        let has_ended = note.is_some() || follow.previous;
        if has_ended && !is_broken {
            return Ok(note);
        }
        // The stream ends with the run, or with the connection.
        let ended = async {
            let note = if is_complete { notes.recv().await } else { None };
            match note {
                Some(note) => note,
                None => std::future::pending().await,
            }
        };
        if let Ok(note) = tokio::time::timeout(RECONNECT, ended).await {
            return Ok(Some(note));
        }
        match api.get_opt(&run.pod).await.and_then(|pod| pod.map(JsonObject::decode).transpose()) {
            Ok(Some(pod)) if still_runs(&pod, run) || has_ended && is_latest(&pod, run) => {}
            Ok(_) => return Ok(note),
            Err(_) => {}
        }
    }
}

/// The reader's lines are no longer received.
struct ReceiverDropped;

/// The reason why reading stopped before the end.
enum StreamEnd {
    /// The receiver was dropped.
    ReceiverDropped,
    /// The server could not be reached, or the connection broke.
    Broken,
    /// The server refused the log, with this message.
    Refused(String),
}

async fn read_stream(
    stream: impl AsyncBufRead,
    source: &Arc<str>,
    position: &mut LogPosition,
    lines: &mpsc::Sender<Vec<LogLine>>,
) -> Result<(), StreamEnd> {
    let mut stream = std::pin::pin!(stream);
    let mut splitter = LineSplitter::default();
    let mut received = ReceivedLines::until(position);
    loop {
        let chunk = stream.fill_buf().await.map_err(|_| StreamEnd::Broken)?;
        let count = chunk.len();
        let mut batch = Vec::new();
        if count == 0 {
            splitter.finish(|raw| batch.push(LogLine::parse(source, raw)));
        } else {
            splitter.feed(chunk, |raw| batch.push(LogLine::parse(source, raw)));
            stream.consume_unpin(count);
        }
        batch.retain(|line| {
            let at = line.at.parse::<Timestamp>().ok();
            let is_new = !received.includes(at);
            if let Some(at) = at.filter(|_| is_new) {
                position.advance(at);
            }
            is_new
        });
        if !batch.is_empty() && lines.send(batch).await.is_err() {
            return Err(StreamEnd::ReceiverDropped);
        }
        if count == 0 {
            return Ok(());
        }
    }
}

/// The position in a log after the lines received so far.
#[derive(Clone, Copy, Debug, Default)]
struct LogPosition {
    /// The latest timestamp of a received line.
    latest: Option<Timestamp>,
    /// The number of lines received since the first line with that timestamp, including it and lines that arrived out
    /// of order.
    lines: usize,
}

impl LogPosition {
    /// Moves the position behind a line with this timestamp.
    fn advance(&mut self, at: Timestamp) {
        if self.latest.is_none_or(|latest| at > latest) {
            *self = Self { latest: Some(at), lines: 1 };
        } else {
            self.lines += 1;
        }
    }
}

/// Finds the lines of a resumed stream that were received over an earlier connection.
struct ReceivedLines {
    /// The latest timestamp among them.
    latest: Option<Timestamp>,
    /// The number of received lines left to skip from the first line with that timestamp on.
    left: usize,
    /// The stream has reached that timestamp.
    has_reached_latest: bool,
    /// The previous line was received.
    includes_previous: bool,
}

impl ReceivedLines {
    fn until(position: &LogPosition) -> Self {
        let LogPosition { latest, lines } = *position;
        Self { latest, left: lines, has_reached_latest: false, includes_previous: false }
    }

    /// Reports whether the next line of the stream is one of them. A line without a timestamp belongs to the line before
    /// it: a long line is cut.
    fn includes(&mut self, at: Option<Timestamp>) -> bool {
        let (Some(at), Some(latest)) = (at, self.latest) else { return self.includes_previous };
        if at > latest {
            self.left = 0;
        }
        self.has_reached_latest |= at >= latest;
        self.includes_previous = if self.has_reached_latest {
            let is_left = self.left > 0;
            self.left = self.left.saturating_sub(1);
            is_left
        } else {
            true
        };
        self.includes_previous
    }
}

/// Cuts a byte stream into lines.
#[derive(Default)]
struct LineSplitter {
    partial: Vec<u8>,
}

impl LineSplitter {
    fn feed(&mut self, mut bytes: &[u8], mut line: impl FnMut(&[u8])) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (head, tail) = bytes.split_at(end);
            if self.partial.is_empty() {
                line(head);
            } else {
                self.partial.extend_from_slice(head);
                line(&self.partial);
                self.partial.clear();
            }
            bytes = &tail[1..];
        }
        self.partial.extend_from_slice(bytes);
        if self.partial.len() > LINE_BYTES {
            line(&self.partial);
            self.partial.clear();
        }
    }

    fn finish(&mut self, mut line: impl FnMut(&[u8])) {
        if !self.partial.is_empty() {
            line(&self.partial);
            self.partial.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::Client;
    use kube::client::Body;
    use object::Kind;
    use serde_json::json;

    use super::*;
    use crate::logs::container_runs::{Job, jobs};
    use crate::logs::selection::Pods;
    use console_data::decoded::api_of;
    use console_operations::effect::ContainerFilter;

    #[test]
    fn lines_are_cut_across_chunks_and_never_grow_without_bound() {
        let mut splitter = LineSplitter::default();
        let mut seen: Vec<String> = Vec::new();
        let mut keep = |raw: &[u8]| seen.push(String::from_utf8_lossy(raw).into_owned());
        splitter.feed(b"one\ntw", &mut keep);
        splitter.feed(b"o\n\nrest", &mut keep);
        splitter.finish(&mut keep);
        splitter.feed(&vec![b'x'; LINE_BYTES + 1], &mut keep);
        assert_eq!(seen[..4], ["one", "two", "", "rest"]);
        assert_eq!(seen[4].len(), LINE_BYTES + 1);
    }

    fn running_pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": "web", "uid": "u1", "namespace": "default" },
            "status": { "containerStatuses": [
                { "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                  "state": { "running": {} }, "lastState": { "terminated": { "exitCode": 1 } } },
            ] },
        }))
        .unwrap()
    }

    /// A connection that the server refuses.
    const OUTAGE: &str = "refused";

    /// Returns the lines that are shown of a log that the server sends over several connections; the container runs
    /// until the last one has ended. Checks that each later connection begins at the given time.
    async fn read_over(connections: Vec<(&'static str, &'static str)>) -> Vec<String> {
        read_run_over(connections, false).await
    }

    /// As [`read_over`], for the current or the previous run.
    async fn read_run_over(connections: Vec<(&'static str, &'static str)>, previous: bool) -> Vec<String> {
        let left = Arc::new(parking_lot::Mutex::new(connections));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let mut left = left.lock();
            let body = if request.uri().path().ends_with("/log") {
                let (since, log) = left.remove(0);
                let query = request.uri().query().unwrap_or_default().replace("%3A", ":");
                assert!(query.contains(since), "{query}");
                if log == OUTAGE {
                    let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
                    return std::future::ready(Err(refused));
                }
                log.as_bytes().to_vec()
            } else {
                let mut pod = running_pod();
                if left.is_empty() {
                    pod.status = None;
                }
                serde_json::to_vec(&pod).unwrap()
            };
            std::future::ready(Ok(http::Response::new(Body::from(body))))
        });
        let follow = LogSelection {
            namespace: "default".to_owned(),
            pods: Pods::Named("web".to_owned()),
            which: ContainerFilter::All,
            start: LogStart::Tail(100),
            previous,
        };
        let Some(Job::Read(run, None)) = jobs(&running_pod(), &follow).pop() else { panic!("it runs") };
        let api = api_of(Client::new(service, "default"), Kind::Pod, Some("default"));
        let (sender, mut receiver) = mpsc::channel::<Vec<LogLine>>(16);
        let mut texts = Vec::new();
        let collect = async {
            while let Some(batch) = receiver.recv().await {
                texts.extend(batch.into_iter().map(|line| line.text));
            }
        };
        let (_, notes) = mpsc::channel(1);
        tokio::join!(read_run(api, run, notes, follow, sender, Outage::default()), collect);
        texts
    }

    #[tokio::test(start_paused = true)]
    async fn a_resumed_log_neither_loses_nor_repeats_lines_of_the_same_time_con_10() {
        let first = "2026-05-01T12:00:07.1Z a\n2026-05-01T12:00:08.2Z b\n2026-05-01T12:00:08.2Z c\n";
        // `c` is not repeated, and `d`, which was written at the same time, is not lost.
        let second = "2026-05-01T12:00:08.2Z b\n2026-05-01T12:00:08.2Z c\n2026-05-01T12:00:08.2Z d\n";
        let third = "2026-05-01T12:00:08.2Z b\n2026-05-01T12:00:08.2Z c\n2026-05-01T12:00:08.2Z d\n\
            2026-05-01T12:00:08.2Z e\n2026-05-01T12:00:09Z f\n";
        let since = "sinceTime=2026-05-01T12:00:07";
        let seen = read_over(vec![("tailLines=100", first), (since, second), (since, third)]).await;
        assert_eq!(seen, ["a", "b", "c", "d", "e", "f"]);
    }

    /// A server that is gone is reported once, not at each attempt.
    #[tokio::test(start_paused = true)]
    async fn a_lasting_outage_is_one_line_of_a_log_con_18() {
        let seen = read_over(vec![
            ("tailLines=100", "2026-05-01T12:00:07Z a\n"),
            ("sinceTime", OUTAGE),
            ("sinceTime", OUTAGE),
            ("sinceTime", OUTAGE),
            ("sinceTime", "2026-05-01T12:00:07Z a\n2026-05-01T12:00:09Z b\n"),
            ("sinceTime", OUTAGE),
            ("sinceTime", "2026-05-01T12:00:09Z b\n2026-05-01T12:00:10Z c\n"),
        ])
        .await;
        assert_eq!(seen, ["a", LOST, "b", LOST, "c"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_log_of_the_previous_run_is_read_after_an_outage_con_18() {
        let log = "2026-05-01T12:00:07Z a\n";
        let seen = read_run_over(vec![("previous=true", OUTAGE), ("previous=true", log)], true).await;
        assert_eq!(seen, [LOST, "a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_resumed_log_does_not_repeat_lines_without_a_time_con_10() {
        // The second line is the rest of a line that was too long; the fourth is older than the third.
        let first = "2026-05-01T12:00:07Z a\nrest of a\n2026-05-01T12:00:08.2Z b\n\
            2026-05-01T12:00:08.1Z c\nrest of c\n";
        let second = "the server has rotated the log\n2026-05-01T12:00:07Z a\nrest of a\n\
            2026-05-01T12:00:08.2Z b\n2026-05-01T12:00:08.1Z c\nrest of c\n2026-05-01T12:00:08.1Z d\nrest of d\n";
        let third = "2026-05-01T12:00:07Z a\nrest of a\n2026-05-01T12:00:08.2Z b\n\
            2026-05-01T12:00:08.1Z c\nrest of c\n2026-05-01T12:00:08.1Z d\nrest of d\n\
            2026-05-01T12:00:08.2Z e\n";
        let since = "sinceTime=2026-05-01T12:00:07";
        let seen = read_over(vec![("tailLines=100", first), (since, second), (since, third)]).await;
        let notice = "the server has rotated the log";
        let all = ["a", "rest of a", "b", "c", "rest of c", notice, "d", "rest of d", "e"];
        assert_eq!(seen, all);
        // The received lines are no longer in the log.
        let seen =
            read_over(vec![("tailLines=100", first), (since, "2026-05-01T12:00:09Z e\nrest of e\n")]).await;
        assert_eq!(seen[5..], ["e", "rest of e"]);
    }
}
