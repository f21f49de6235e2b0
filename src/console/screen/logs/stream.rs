//! Reads one run of a container to its end. A broken connection is resumed at the last timestamp, so that no line is
//! lost or duplicated.

use std::sync::Arc;
use std::time::Duration;

use futures::AsyncBufRead;
use futures::io::AsyncBufReadExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use tokio::sync::mpsc;

use super::container_runs::{ContainerRun, Note, still_runs};
use super::selection::{LogSelection, LogStart};
use crate::action::error_text;
use crate::log_line::LogLine;

/// Maximum length of a line in bytes; longer lines are cut.
const LINE_BYTES: usize = 64 * 1024;
/// Pause before a broken stream is resumed.
const RECONNECT: Duration = Duration::from_secs(1);

/// Reads one run to its end, over several connections if necessary.
pub(super) async fn read_run(
    api: Api<Pod>,
    run: ContainerRun,
    closing_note: Option<Note>,
    follow: LogSelection,
    lines: mpsc::Sender<Vec<LogLine>>,
) {
    let mut last: Option<String> = None;
    loop {
        let mut params = LogParams {
            container: Some(run.container.clone()),
            follow: !follow.previous,
            previous: follow.previous,
            timestamps: true,
            ..LogParams::default()
        };
        match last.as_deref().and_then(|last| last.parse::<Timestamp>().ok()) {
            // The server takes whole seconds, so that reading resumes one second before the last line; lines that were
            // already read are skipped below.
            Some(at) => params.since_time = at.checked_sub(jiff::SignedDuration::from_secs(1)).ok(),
            None => match follow.start {
                LogStart::Tail(count) => params.tail_lines = Some(count),
                LogStart::Since(seconds) => params.since_seconds = Some(seconds),
                LogStart::Head => {}
            },
        }
        let broken = match api.log_stream(&run.pod, &params).await {
            Ok(stream) => read_stream(stream, &run.source, &mut last, &lines).await,
            Err(error) => Err(StreamEnd::Stream(error_text(&error))),
        };
        match broken {
            Err(StreamEnd::ReceiverDropped) => return,
            Err(StreamEnd::Stream(text)) => {
                if lines.send(vec![LogLine::note(&run.source, text)]).await.is_err() {
                    return;
                }
            }
            Ok(()) => {}
        }
        if let Some(note) = closing_note {
            // The run had ended before reading began, so that its log is complete. An error means that the receiver was
            // dropped.
            let _ = lines.send(vec![LogLine::note(&note.source, note.text)]).await;
            return;
        }
        if follow.previous {
            return;
        }
        // The stream ends with the run, or with the connection.
        tokio::time::sleep(RECONNECT).await;
        match api.get_opt(&run.pod).await {
            Ok(Some(pod)) if still_runs(&pod, &run) => {}
            Ok(_) => return,
            Err(_) => {}
        }
    }
}

/// The reason why reading stopped before the end.
enum StreamEnd {
    /// The receiver was dropped.
    ReceiverDropped,
    /// The connection broke.
    Stream(String),
}

async fn read_stream(
    stream: impl AsyncBufRead,
    source: &Arc<str>,
    last: &mut Option<String>,
    lines: &mpsc::Sender<Vec<LogLine>>,
) -> Result<(), StreamEnd> {
    let mut stream = std::pin::pin!(stream);
    let mut splitter = LineSplitter::default();
    let resume_after = last.clone();
    loop {
        let chunk = stream
            .fill_buf()
            .await
            .map_err(|error| StreamEnd::Stream(format!("the stream broke: {error}")))?;
        let count = chunk.len();
        let mut batch = Vec::new();
        if count == 0 {
            splitter.finish(|raw| batch.push(LogLine::parse(source, raw)));
        } else {
            splitter.feed(chunk, |raw| batch.push(LogLine::parse(source, raw)));
            stream.consume_unpin(count);
        }
        if let Some(after) = &resume_after {
            batch.retain(|line| line.at.is_empty() || later(&line.at, after));
        }
        if let Some(newest) = batch.iter().rev().find(|line| !line.at.is_empty()) {
            *last = Some(newest.at.clone());
        }
        if !batch.is_empty() && lines.send(batch).await.is_err() {
            return Err(StreamEnd::ReceiverDropped);
        }
        if count == 0 {
            return Ok(());
        }
    }
}

fn later(at: &str, than: &str) -> bool {
    match (at.parse::<Timestamp>(), than.parse::<Timestamp>()) {
        (Ok(at), Ok(than)) => at > than,
        _ => at > than,
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
    use super::*;

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
}
