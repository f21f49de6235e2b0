//! Reads the logs of one pod, or of all pods that match a selector, and follows pods as they come and go.
//!
//! One watch reports the running containers; each run of a container (pod, name, restart count) has one task that reads
//! its log to the end. Neither draws nor retains lines.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use base::sort::SliceOrder;
use base::task::JoinSet;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::runtime::watcher::{self, Event};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::container_runs::{ContainerRun, Job, Note, jobs};
use super::outage::{LOST, Outage};
use super::selection::{LogSelection, Pods};
use super::stream::read_run;
use console_data::action::{is_connection_error, request_error, watch_error_text};
use console_data::decoded::{api_of, watch};
use console_operations::effect::LogStart;
use console_toolkit::log_line::LogLine;
use object::Kind;

/// Maximum number of batches in flight; beyond it, reading pauses and the server waits.
const BATCHES: usize = 16;
/// Maximum number of notes that wait for the last line of a run; further ones do not wait.
const NOTES: usize = 4;
/// Maximum number of lines in a batch.
const BATCH_LINES: usize = 4096;

/// Reads until the future is dropped; batches of lines arrive on the receiver.
pub fn follow(
    client: Client,
    follow: LogSelection,
) -> (impl Future<Output = ()> + Send, mpsc::Receiver<Vec<LogLine>>) {
    let (lines, receiver) = mpsc::channel(BATCHES);
    (read_all(client, follow, lines), receiver)
}

/// Merges all waiting lines into one batch, sorted by time if they come from several containers.
pub async fn next_batch(receiver: &mut mpsc::Receiver<Vec<LogLine>>) -> Option<Vec<LogLine>> {
    let mut batch = receiver.recv().await?;
    let mut several = false;
    while batch.len() < BATCH_LINES {
        let Ok(more) = receiver.try_recv() else { break };
        several |= more.first().map(|line| &line.source) != batch.first().map(|line| &line.source);
        batch.extend(more);
    }
    if several && batch.iter().all(|line| !line.at.is_empty()) {
        batch.order_by(|one, other| one.at.cmp(&other.at));
    }
    Some(batch)
}

/// Pause without earlier lines after which the backlog counts as complete: the log of another container may be slower.
const QUIET: Duration = Duration::from_millis(100);
/// Time limit for the backlog; lines of slower logs are shown when they arrive.
const SLOWEST: Duration = Duration::from_secs(1);
/// Maximum number of earlier lines that are held back for merging.
const BACKLOG_LINES: usize = 50_000;

/// Returns the earlier lines of several containers, merged in order of time; `None` once the receiver is closed.
pub(crate) async fn backlog(receiver: &mut mpsc::Receiver<Vec<LogLine>>) -> Option<Vec<LogLine>> {
    let mut batch = receiver.recv().await?;
    let collect = async {
        while batch.len() < BACKLOG_LINES
            && let Ok(Some(more)) = timeout(QUIET, receiver.recv()).await
        {
            batch.extend(more);
        }
    };
    // An incomplete backlog is shown, too.
    let _ = timeout(SLOWEST, collect).await;
    Some(merged(batch))
}

/// Sorts by time; a line without a time stays after the preceding line of its container.
fn merged(batch: Vec<LogLine>) -> Vec<LogLine> {
    let mut last: HashMap<Arc<str>, String> = HashMap::new();
    let mut timed: Vec<(String, LogLine)> = batch
        .into_iter()
        .map(|line| {
            if !line.at.is_empty() {
                last.insert(line.source.clone(), line.at.clone());
            }
            (last.get(&line.source).cloned().unwrap_or_default(), line)
        })
        .collect();
    timed.order_by(|(one, _), (other, _)| one.cmp(other));
    timed.into_iter().map(|(_, line)| line).collect()
}

async fn read_all(client: Client, follow: LogSelection, lines: mpsc::Sender<Vec<LogLine>>) {
    let api = api_of(client, Kind::Pod, Some(&follow.namespace));
    let config = match &follow.pods {
        Pods::Named(name) => watcher::Config::default().fields(&format!("metadata.name={name}")),
        Pods::Selected(labels) => watcher::Config::default().labels(labels),
    };
    let mut events = std::pin::pin!(watch::<Pod>(api.clone(), config));
    let mut seen: HashSet<String> = HashSet::new();
    // Dropping this future drops the set, which aborts its tasks.
    let mut readers = JoinSet::new();
    let mut readings = ActiveReaders::default();
    let mut notes = RunNotes::default();
    let outage = Outage::default();
    let mut complaint = String::new();
    let mut listed = false;
    while let Some(event) = events.next().await {
        while readers.try_join_next().is_some() {}
        // The start of a list is no answer.
        if event.as_ref().is_ok_and(|event| !matches!(event, Event::Init)) {
            outage.end();
            complaint.clear();
        }
        match event {
            Ok(Event::Apply(pod) | Event::InitApply(pod)) => {
                seen.extend(pod.metadata.uid.clone());
                for job in jobs(&pod, &follow) {
                    match job {
                        Job::Read(run, note) if seen.insert(run.key.clone()) => {
                            seen.extend(note.iter().map(|note| note.key.clone()));
                            let notes = notes.of(&run, note);
                            // The start applies to containers that already run; later runs are read from their first
                            // line.
                            let start = if listed { LogStart::Head } else { follow.start };
                            let follow = LogSelection { start, ..follow.clone() };
                            let reading = readings.of(&pod);
                            let read =
                                read_run(api.clone(), run, notes, follow, lines.clone(), outage.clone());
                            readers.spawn(async move {
                                read.await;
                                drop(reading);
                            });
                        }
                        Job::Read(run, Some(note)) if seen.insert(note.key.clone()) => {
                            if let Err(note) = notes.send(&run, note)
                                && lines.send(vec![LogLine::note(&note.source, note.text)]).await.is_err()
                            {
                                return;
                            }
                        }
                        Job::Tell(note) if seen.insert(note.key.clone()) => {
                            if lines.send(vec![LogLine::note(&note.source, note.text)]).await.is_err() {
                                return;
                            }
                        }
                        Job::Read(..) | Job::Tell(_) => {}
                    }
                }
            }
            Ok(Event::InitDone) => {
                let missing = match &follow.pods {
                    Pods::Named(name) if seen.is_empty() => Some(format!("there is no pod {name}")),
                    Pods::Selected(labels) if seen.is_empty() => Some(format!("no pod has {labels} yet")),
                    _ => None,
                };
                if !std::mem::replace(&mut listed, true)
                    && let Some(text) = missing
                    && lines.send(vec![LogLine::note(&Arc::from(""), text)]).await.is_err()
                {
                    return;
                }
            }
            Ok(Event::Delete(pod)) => {
                let ended = readings.ended(&pod);
                let name = pod.metadata.name.unwrap_or_default();
                let note = LogLine::note(&Arc::from(""), format!("pod {name} is gone"));
                let lines = lines.clone();
                readers.spawn(async move {
                    // The pod's lines come before the note.
                    ended.await;
                    // An error means that the receiver was dropped.
                    let _ = lines.send(vec![note]).await;
                });
            }
            Ok(Event::Init) => {}
            Err(error) => {
                let (text, note) = if request_error(&error).is_some_and(is_connection_error) {
                    (LOST.to_owned(), outage.begin())
                } else {
                    let text = format!("cannot watch pods: {}; trying again", watch_error_text(&error));
                    (text.clone(), Some(LogLine::note(&Arc::from(""), text)))
                };
                if text != complaint {
                    complaint = text;
                    if let Some(note) = note
                        && lines.send(vec![note]).await.is_err()
                    {
                        return;
                    }
                }
            }
        }
    }
}

/// The channels to the readers of runs, by the runs' keys: a note about the end of a run is shown after its last line,
/// which its reader may not have received yet.
#[derive(Default)]
struct RunNotes(HashMap<String, mpsc::Sender<Note>>);

impl RunNotes {
    /// Returns the notes for the reader of a run, with the first one if there already is one.
    fn of(&mut self, run: &ContainerRun, first: Option<Note>) -> mpsc::Receiver<Note> {
        self.0.retain(|_, reader| !reader.is_closed());
        let (sender, receiver) = mpsc::channel(NOTES);
        if let Some(note) = first {
            sender.try_send(note).expect("a new channel has space");
        }
        self.0.insert(run.key.clone(), sender);
        receiver
    }

    /// Sends a note to the reader of a run, or returns it if nothing reads the run any more.
    fn send(&self, run: &ContainerRun, note: Note) -> Result<(), Note> {
        let Some(reader) = self.0.get(&run.key) else { return Err(note) };
        reader.try_send(note).map_err(mpsc::error::TrySendError::into_inner)
    }
}

/// The pods that are still being read: each reader holds a sender of its pod's channel.
#[derive(Default)]
struct ActiveReaders(HashMap<String, (mpsc::Sender<()>, mpsc::Receiver<()>)>);

impl ActiveReaders {
    /// Returns a sender, held while a log of the pod is read.
    fn of(&mut self, pod: &Pod) -> mpsc::Sender<()> {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        self.0.entry(uid).or_insert_with(|| mpsc::channel(1)).0.clone()
    }

    /// Completes once no log of the pod is read any more.
    fn ended(&mut self, pod: &Pod) -> impl Future<Output = ()> + use<> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let receiver = self.0.remove(uid).map(|(_, receiver)| receiver);
        async move {
            if let Some(mut receiver) = receiver {
                // No message is ever sent: the channel closes with the last sender.
                let _ = receiver.recv().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;
    use console_operations::effect::ContainerFilter;

    fn all_of_web() -> LogSelection {
        LogSelection {
            namespace: "default".to_owned(),
            pods: Pods::Named("web".to_owned()),
            which: ContainerFilter::All,
            start: LogStart::Tail(100),
            previous: false,
        }
    }

    /// Earlier lines of two containers are shown in the order of their times.
    #[tokio::test]
    async fn earlier_lines_of_several_containers_are_merged_by_time_con_10() {
        let (sender, mut receiver) = mpsc::channel(8);
        let line = |source: &str, second: u32| {
            let text = format!("2026-05-01T12:00:{second:02}Z line {second}");
            LogLine::parse(&Arc::from(source), text.as_bytes())
        };
        sender.send(vec![line("a", 1), line("a", 3), line("a", 5)]).await.unwrap();
        sender.send(vec![line("b", 2), LogLine::note(&Arc::from("b"), "note"), line("b", 4)]).await.unwrap();
        drop(sender);
        let texts: Vec<String> =
            backlog(&mut receiver).await.unwrap().into_iter().map(|line| line.text).collect();
        assert_eq!(texts, ["line 1", "line 2", "note", "line 3", "line 4", "line 5"]);
        assert!(backlog(&mut receiver).await.is_none());
    }

    /// The watch reports the crash before the log's connection has brought the last line.
    #[tokio::test(start_paused = true)]
    async fn the_note_about_a_crash_comes_after_the_last_line_of_the_run_con_10() {
        let pod = |state: Value, last: Value| {
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "web", "uid": "u1", "namespace": "default", "resourceVersion": "2"},
                "status": {"containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": false,
                    "restartCount": 1, "state": state, "lastState": last}]}})
        };
        let running = pod(json!({"running": {}}), json!({}));
        let crashed =
            pod(json!({"waiting": {"reason": "CrashLoopBackOff"}}), json!({"terminated": {"exitCode": 1}}));
        let watches = Arc::new(AtomicUsize::new(0));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (running, crashed, watches) = (running.clone(), crashed.clone(), watches.clone());
            async move {
                let query = request.uri().query().unwrap_or_default();
                let body = if request.uri().path().ends_with("/log") {
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    "2026-05-01T12:00:01Z one\n2026-05-01T12:00:02Z the last words\n".to_owned()
                } else if !query.contains("watch=true") {
                    let metadata = json!({"resourceVersion": "1"});
                    json!({"apiVersion": "v1", "kind": "PodList", "metadata": metadata, "items": [running]})
                        .to_string()
                } else if watches.fetch_add(1, Ordering::Relaxed) == 0 {
                    json!({"type": "MODIFIED", "object": crashed}).to_string() + "\n"
                } else {
                    std::future::pending().await
                };
                Ok::<_, Infallible>(http::Response::new(Body::from(body.into_bytes())))
            }
        });
        let (reading, mut batches) = follow(Client::new(service, "default"), all_of_web());
        let mut texts = Vec::new();
        let collect = async {
            while texts.len() < 3 {
                let batch = next_batch(&mut batches).await.expect("the reading goes on");
                texts.extend(batch.into_iter().map(|line| line.text));
            }
        };
        tokio::select! {
            () = reading => panic!("a pod is followed until the view is closed"),
            done = timeout(Duration::from_mins(1), collect) => done.expect("three lines"),
        }
        assert_eq!(texts, ["one", "the last words", "c waits: CrashLoopBackOff"]);
    }

    /// The server is killed while the pods are watched and the logs of two containers are read: an outage is one line.
    #[tokio::test(start_paused = true)]
    async fn a_lost_connection_is_one_line_for_all_readers_con_18() {
        let status = |name: &str| {
            json!({"name": name, "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "state": {"running": {}}})
        };
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "uid": "u1", "namespace": "default", "resourceVersion": "2"},
            "status": {"containerStatuses": [status("a"), status("b")]}});
        // The watch and both logs are open when the server is killed; afterwards each attempt fails.
        let open = Arc::new(tokio::sync::Barrier::new(3));
        let lists = Arc::new(AtomicUsize::new(0));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (pod, open, lists) = (pod.clone(), open.clone(), lists.clone());
            async move {
                let is_list = request.uri().path().ends_with("/pods")
                    && !request.uri().query().unwrap_or_default().contains("watch=true");
                if is_list && lists.fetch_add(1, Ordering::Relaxed) == 0 {
                    let metadata = json!({"resourceVersion": "1"});
                    let list =
                        json!({"apiVersion": "v1", "kind": "PodList", "metadata": metadata, "items": [pod]});
                    return Ok(http::Response::new(Body::from(list.to_string().into_bytes())));
                }
                // Each group of three waits for the others, so that the attempts go on.
                open.wait().await;
                Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset))
            }
        });
        let (reading, mut batches) = follow(Client::new(service, "default"), all_of_web());
        let mut texts = Vec::new();
        let collect = async {
            while let Ok(Some(batch)) = timeout(Duration::from_mins(1), next_batch(&mut batches)).await {
                texts.extend(batch.into_iter().map(|line| line.text));
            }
        };
        tokio::select! {
            () = reading => panic!("a pod is followed until the view is closed"),
            () = collect => {}
        }
        assert_eq!(texts, [LOST]);
    }

    /// CON-10: the end of a pod is reported after all its lines.
    #[tokio::test]
    async fn a_pod_has_ended_when_its_last_log_was_read() {
        let pod = Pod {
            metadata: kube::api::ObjectMeta { uid: Some("u1".to_owned()), ..Default::default() },
            ..Default::default()
        };
        let mut readings = ActiveReaders::default();
        let (one, other) = (readings.of(&pod), readings.of(&pod));
        let mut ended = std::pin::pin!(readings.ended(&pod));
        assert!(futures::poll!(ended.as_mut()).is_pending());
        drop(one);
        assert!(futures::poll!(ended.as_mut()).is_pending());
        drop(other);
        assert!(futures::poll!(ended.as_mut()).is_ready());
        assert!(futures::poll!(std::pin::pin!(readings.ended(&pod))).is_ready(), "nothing is read of it");
    }
}
