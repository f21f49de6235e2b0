//! Reads the logs of one pod or of all pods a selector finds, and goes on reading as they come and go.
//!
//! One watch tells which containers run; every run of a container (pod, name, restart count) gets one task
//! that reads its log to the end. A broken connection is taken up again at the last timestamp, so that no
//! line is lost or doubled. Never draws; never keeps lines.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::io::AsyncBufReadExt;
use futures::{AsyncBufRead, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::LogParams;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::line::LogLine;
use crate::console::action::error_text;

/// Batches in flight before the server is made to wait.
const BATCHES: usize = 16;
/// Lines handed over at once.
const BATCH_LINES: usize = 4096;
/// A line without an end is cut here.
const LINE_BYTES: usize = 64 * 1024;
/// Pause before a broken stream is taken up again.
const RECONNECT: Duration = Duration::from_secs(1);

/// Where to start reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The last so many lines of each container.
    Tail(i64),
    /// The first line there is.
    Head,
    /// So many seconds ago.
    Since(i64),
}

/// Which containers of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// All of them, init and ephemeral ones too.
    All,
    /// The one of this name.
    One(String),
}

/// Which pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pods {
    /// The one of this name.
    Named(String),
    /// Those with these labels (query form).
    Selected(String),
}

/// What to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follow {
    /// In this namespace.
    pub namespace: String,
    /// These pods.
    pub pods: Pods,
    /// These containers.
    pub which: Which,
    /// From here on.
    pub start: Start,
    /// The run before the last restart, instead of the current one.
    pub previous: bool,
}

/// Reads until it is dropped; batches of lines arrive on the receiver.
pub fn follow(
    client: Client,
    follow: Follow,
) -> (impl Future<Output = ()> + Send, mpsc::Receiver<Vec<LogLine>>) {
    let (lines, receiver) = mpsc::channel(BATCHES);
    (read_all(client, follow, lines), receiver)
}

/// Merges what is there into one batch, in the order of time where several containers speak.
pub async fn next_batch(receiver: &mut mpsc::Receiver<Vec<LogLine>>) -> Option<Vec<LogLine>> {
    let mut batch = receiver.recv().await?;
    let mut several = false;
    while batch.len() < BATCH_LINES {
        let Ok(more) = receiver.try_recv() else { break };
        several |= more.first().map(|line| &line.source) != batch.first().map(|line| &line.source);
        batch.extend(more);
    }
    if several && batch.iter().all(|line| !line.at.is_empty()) {
        batch.sort_by(|one, other| one.at.cmp(&other.at));
    }
    Some(batch)
}

async fn read_all(client: Client, follow: Follow, lines: mpsc::Sender<Vec<LogLine>>) {
    let api: Api<Pod> = Api::namespaced(client, &follow.namespace);
    let config = match &follow.pods {
        Pods::Named(name) => watcher::Config::default().fields(&format!("metadata.name={name}")),
        Pods::Selected(labels) => watcher::Config::default().labels(labels),
    };
    let mut events = std::pin::pin!(watcher(api.clone(), config));
    let mut runs: HashSet<String> = HashSet::new();
    // Reading tasks end with this future: a set aborts what it holds when it is dropped.
    let mut readers = JoinSet::new();
    let mut complaint = String::new();
    let mut listed = false;
    while let Some(event) = events.next().await {
        while readers.try_join_next().is_some() {}
        match event {
            Ok(Event::Apply(pod) | Event::InitApply(pod)) => {
                for job in jobs(&pod, &follow) {
                    match job {
                        Job::Read(run) if runs.insert(run.key.clone()) => {
                            // Only what ran already is started in the middle; a new run is read whole.
                            let start = if listed { Start::Head } else { follow.start };
                            let follow = Follow { start, ..follow.clone() };
                            readers.spawn(read_run(api.clone(), run, follow, lines.clone()));
                        }
                        Job::Tell { key, source, text } if runs.insert(key.clone()) => {
                            if lines.send(vec![LogLine::note(&source, text)]).await.is_err() {
                                return;
                            }
                        }
                        Job::Read(_) | Job::Tell { .. } => {}
                    }
                }
            }
            Ok(Event::InitDone) => listed = true,
            Ok(Event::Init | Event::Delete(_)) => {}
            Err(error) => {
                let text = format!("pods cannot be watched: {error}");
                if text != complaint {
                    complaint.clone_from(&text);
                    if lines.send(vec![LogLine::note(&Arc::from(""), text)]).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// One run of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    key: String,
    pod: String,
    container: String,
    restarts: i32,
    source: Arc<str>,
}

/// What a pod's state asks for.
#[derive(Debug, PartialEq, Eq)]
enum Job {
    Read(Run),
    Tell { key: String, source: Arc<str>, text: String },
}

/// What there is to read or to tell of a pod; the keys make each happen once.
fn jobs(pod: &Pod, follow: &Follow) -> Vec<Job> {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let Some(status) = &pod.status else { return Vec::new() };
    let statuses = status
        .init_container_statuses
        .iter()
        .chain(&status.container_statuses)
        .chain(&status.ephemeral_container_statuses)
        .flatten();
    statuses
        .filter(|status| match &follow.which {
            Which::All => true,
            Which::One(container) => status.name == *container,
        })
        .flat_map(|status| jobs_of(&name, &uid, status, follow.previous))
        .collect()
}

/// One container's part: its run, and why there is none now. A run that has ended is still worth reading.
fn jobs_of(pod: &str, uid: &str, status: &ContainerStatus, previous: bool) -> Vec<Job> {
    let container = &status.name;
    let source: Arc<str> = Arc::from(format!("{pod}/{container}"));
    let run = |key: String| {
        Job::Read(Run {
            key,
            pod: pod.to_owned(),
            container: container.clone(),
            restarts: status.restart_count,
            source: source.clone(),
        })
    };
    let state = status.state.as_ref();
    let has_ended = status.last_state.as_ref().is_some_and(|state| state.terminated.is_some());
    if previous {
        return vec![if has_ended {
            run(format!("{uid}/{container}/before/{}", status.restart_count))
        } else {
            Job::Tell {
                key: format!("{uid}/{container}/none"),
                source,
                text: format!("{container} was not restarted: there is no run before this one"),
            }
        }];
    }
    if state.is_some_and(|state| state.running.is_some() || state.terminated.is_some()) {
        return vec![run(format!("{uid}/{container}/{}", status.restart_count))];
    }
    let Some(waiting) = state.and_then(|state| state.waiting.as_ref()) else { return Vec::new() };
    let reason = waiting.reason.clone().unwrap_or_else(|| "Waiting".to_owned());
    let message = waiting.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
    let last_run = has_ended.then(|| run(format!("{uid}/{container}/{}", status.restart_count)));
    let wait = Job::Tell {
        key: format!("{uid}/{container}/{}/{reason}", status.restart_count),
        source: source.clone(),
        text: format!("{container} waits: {reason}{message}"),
    };
    last_run.into_iter().chain([wait]).collect()
}

/// Reads one run to its end, through as many connections as that takes.
async fn read_run(api: Api<Pod>, run: Run, follow: Follow, lines: mpsc::Sender<Vec<LogLine>>) {
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
            // The server takes whole seconds; what was read already is skipped below. One second earlier
            // than the last line, because the number is rounded.
            Some(at) => params.since_time = at.checked_sub(jiff::SignedDuration::from_secs(1)).ok(),
            None => match follow.start {
                Start::Tail(count) => params.tail_lines = Some(count),
                Start::Since(seconds) => params.since_seconds = Some(seconds),
                Start::Head => {}
            },
        }
        let broken = match api.log_stream(&run.pod, &params).await {
            Ok(stream) => read_stream(stream, &run.source, &mut last, &lines).await,
            Err(error) => Err(Broken::Stream(error_text(&error))),
        };
        match broken {
            Err(Broken::Unheard) => return,
            Err(Broken::Stream(text)) => {
                if lines.send(vec![LogLine::note(&run.source, text)]).await.is_err() {
                    return;
                }
            }
            Ok(()) => {}
        }
        if follow.previous {
            return;
        }
        // At the end of a stream the run is over, or only the connection is.
        tokio::time::sleep(RECONNECT).await;
        match api.get_opt(&run.pod).await {
            Ok(Some(pod)) if still_runs(&pod, &run) => {}
            Ok(_) => return,
            Err(_) => {}
        }
    }
}

fn still_runs(pod: &Pod, run: &Run) -> bool {
    let Some(status) = &pod.status else { return false };
    status
        .init_container_statuses
        .iter()
        .chain(&status.container_statuses)
        .chain(&status.ephemeral_container_statuses)
        .flatten()
        .any(|status| {
            status.name == run.container
                && status.restart_count == run.restarts
                && status.state.as_ref().is_some_and(|state| state.running.is_some())
        })
}

/// Why reading stopped before the end.
enum Broken {
    /// Nobody listens any more.
    Unheard,
    /// The connection broke.
    Stream(String),
}

async fn read_stream(
    stream: impl AsyncBufRead,
    source: &Arc<str>,
    last: &mut Option<String>,
    lines: &mpsc::Sender<Vec<LogLine>>,
) -> Result<(), Broken> {
    let mut stream = std::pin::pin!(stream);
    let mut splitter = Splitter::default();
    let resume_after = last.clone();
    loop {
        let chunk =
            stream.fill_buf().await.map_err(|error| Broken::Stream(format!("the stream broke: {error}")))?;
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
            return Err(Broken::Unheard);
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
struct Splitter {
    partial: Vec<u8>,
}

impl Splitter {
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
    use serde_json::json;

    #[expect(clippy::needless_pass_by_value, reason = "a literal reads best at the call")]
    fn pod(statuses: serde_json::Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": "web", "uid": "u1" },
            "status": { "containerStatuses": statuses },
        }))
        .unwrap()
    }

    fn follow_of(which: Which, previous: bool) -> Follow {
        Follow {
            namespace: "default".to_owned(),
            pods: Pods::Named("web".to_owned()),
            which,
            start: Start::Tail(100),
            previous,
        }
    }

    /// CON-10: each run of a container is read once, and one that cannot be read says why.
    #[test]
    fn runs_and_waits_are_told_apart() {
        let pod = pod(json!([
            { "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 2,
              "state": { "running": {} }, "lastState": { "terminated": { "exitCode": 1 } } },
            { "name": "b", "image": "", "imageID": "", "ready": false, "restartCount": 0,
              "state": { "waiting": { "reason": "ImagePullBackOff", "message": "Back-off" } } },
            { "name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 3,
              "state": { "waiting": { "reason": "CrashLoopBackOff" } },
              "lastState": { "terminated": { "exitCode": 1 } } },
        ]));
        let told: Vec<String> = jobs(&pod, &follow_of(Which::All, false))
            .into_iter()
            .map(|job| match job {
                Job::Read(run) => run.key,
                Job::Tell { text, .. } => text,
            })
            .collect();
        assert_eq!(
            told,
            ["u1/a/2", "b waits: ImagePullBackOff: Back-off", "u1/c/3", "c waits: CrashLoopBackOff"]
        );
        let previous: Vec<String> = jobs(&pod, &follow_of(Which::All, true))
            .into_iter()
            .map(|job| match job {
                Job::Read(run) => run.key,
                Job::Tell { text, .. } => text,
            })
            .collect();
        assert_eq!(
            previous,
            ["u1/a/before/2", "b was not restarted: there is no run before this one", "u1/c/before/3"]
        );
        assert_eq!(jobs(&pod, &follow_of(Which::One("nosuch".to_owned()), false)), []);
    }

    #[test]
    fn lines_are_cut_across_chunks_and_never_grow_without_bound() {
        let mut splitter = Splitter::default();
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
