//! The last lines of the logs of crashing containers: their selection, how they are read, and the text for a log that
//! cannot be read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::task::JoinSet;
use futures::io::AsyncReadExt;
use jiff::Timestamp;
use kube::Client;
use kube::api::LogParams;

use console_data::action::error_text;
use console_data::container_state::ContainerFacts;
use console_data::decoded::api_of;
use console_data::resource::{ObjectRef, Uid};
use console_operations::effect::{Effect, Outbox};
use console_toolkit::log_line::LogLine;
use object::Kind;

/// Maximum number of logs read for one screen.
pub(super) const LOGS: usize = 6;
/// Number of lines shown of a log.
const LINES: usize = 8;
/// Maximum number of bytes read of a log.
const BYTES: u64 = 1 << 20;
/// Maximum number of characters shown of a line.
const LINE: usize = 400;
/// Timeout for reading one log.
const LOG_TIMEOUT: Duration = Duration::from_secs(10);

/// Identifies the log of one run of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogKey {
    pod: Uid,
    namespace: String,
    /// The pod's name.
    pub(super) name: String,
    container: String,
    /// True for the previous run, if the container waits for its restart.
    pub(super) previous: bool,
    /// The number of restarts and the end of the last run, which identify the run: each run has its own log.
    run: (i32, Option<Timestamp>),
}

impl LogKey {
    /// Returns the run with the log that explains the crash of a container; `None` if it has not crashed.
    pub(super) fn of(pod: &ObjectRef, one: &ContainerFacts) -> Option<Self> {
        let has_failed = !one.is_running && !one.is_waiting && one.health.is_fault();
        if one.last_exit.is_none() && !has_failed {
            return None;
        }
        let ended = one.last_exit.as_ref().and_then(|(_, at)| *at);
        Some(Self {
            pod: pod.uid.clone()?,
            namespace: pod.namespace.clone()?,
            name: pod.name.clone(),
            container: one.name.clone(),
            previous: one.is_waiting,
            run: (one.restarts, ended),
        })
    }
}

/// The last lines of a log, or why it cannot be read.
pub(super) type Tail = Result<Vec<String>, String>;

/// The result of reading a log.
#[derive(Debug)]
pub(super) struct TailRead(LogKey, Tail);

/// The logs to show, with their text; `None` while a log is being read.
#[derive(Debug, Default)]
pub(super) struct Tails(BTreeMap<LogKey, Option<Tail>>);

impl Tails {
    /// Drops all logs, so that they are read again.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Retains the logs with these keys, and starts to read the new ones.
    pub(super) fn want(&mut self, keys: Vec<LogKey>) -> Option<Effect> {
        self.0.retain(|key, _| keys.contains(key));
        let before = self.0.len();
        for key in keys {
            self.0.entry(key).or_default();
        }
        if self.0.len() == before {
            return None;
        }
        // The new task replaces the running one, so that all missing logs are read again.
        let unread = self.0.iter().filter(|(_, tail)| tail.is_none()).map(|(key, _)| key.clone());
        let unread: Vec<LogKey> = unread.collect();
        Some(Effect::task("logs", move |out| read_all(out, unread)))
    }

    /// Stores the text of a log.
    pub(super) fn take(&mut self, TailRead(key, tail): TailRead) {
        if let Some(known) = self.0.get_mut(&key) {
            *known = Some(tail);
        }
    }

    /// Returns the text for a log: a heading and its last lines.
    pub(super) fn log_lines(&self, key: &LogKey) -> Vec<String> {
        let run = if key.previous { "the previous run" } else { "this run" };
        let log = format!("log of {run} of {}", key.name);
        match self.0.get(key) {
            None | Some(None) => vec![format!("{log}: loading …")],
            Some(Some(Err(why))) => vec![format!("{log} cannot be read: {why}")],
            Some(Some(Ok(lines))) if lines.is_empty() => vec![format!("{log} is empty")],
            Some(Some(Ok(lines))) => {
                std::iter::once(format!("{log}, the last lines:")).chain(lines.iter().cloned()).collect()
            }
        }
    }
}

async fn read_all(out: Outbox, keys: Vec<LogKey>) {
    let mut reads = JoinSet::new();
    for key in keys {
        let (client, out) = (out.client(), out.clone());
        reads.spawn(async move {
            let tail = match tokio::time::timeout(LOG_TIMEOUT, read(client, &key)).await {
                Ok(tail) => tail,
                Err(_) => Err(format!("no answer within {} s", LOG_TIMEOUT.as_secs())),
            };
            out.data(TailRead(key, tail)).await;
        });
    }
    // Dropping this future drops the set, which aborts its tasks.
    while reads.join_next().await.is_some() {}
}

async fn read(client: Client, key: &LogKey) -> Tail {
    let pods = api_of(client, Kind::Pod, Some(&key.namespace));
    let params = LogParams {
        container: Some(key.container.clone()),
        previous: key.previous,
        tail_lines: Some(LINES as i64),
        // The line parser expects timestamps.
        timestamps: true,
        ..LogParams::default()
    };
    let stream = pods.log_stream(&key.name, &params).await.map_err(|error| error_text(&error))?;
    let mut bytes = Vec::new();
    let mut stream = std::pin::pin!(stream.take(BYTES));
    let read = stream.read_to_end(&mut bytes).await;
    read.map_err(|error| format!("the stream broke: {error}"))?;
    Ok(last_lines(&bytes))
}

/// Returns the last lines of a log, without control sequences.
fn last_lines(bytes: &[u8]) -> Vec<String> {
    let source = Arc::from("");
    let lines = bytes.split(|byte| *byte == b'\n').map(|raw| LogLine::parse(&source, raw).text);
    let mut lines: Vec<String> = lines.filter(|line| !line.trim().is_empty()).collect();
    lines.drain(..lines.len().saturating_sub(LINES));
    for line in &mut lines {
        if let Some((end, _)) = line.char_indices().nth(LINE) {
            line.truncate(end);
            line.push('…');
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_a_log_are_few_short_and_harmless_sec_3() {
        let all: Vec<String> = (0..30).map(|at| format!("2026-05-01T12:00:{at:02}Z line {at}\n")).collect();
        let lines = last_lines(all.concat().as_bytes());
        assert_eq!(
            (lines.len(), lines[0].as_str(), lines[LINES - 1].as_str()),
            (LINES, "line 22", "line 29")
        );
        let wild = b"2026-05-01T12:00:00Z \x1b[31mpanic\x1b[0m: \x1b]0;title\x07no\xff such file\n\n";
        assert_eq!(last_lines(wild), ["panic: no\u{fffd} such file"]);
        let long = last_lines("x".repeat(2 * LINE).as_bytes());
        assert_eq!(long[0].chars().count(), LINE + 1);
        assert!(last_lines(b"").is_empty());
    }
}
