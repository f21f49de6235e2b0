//! Serves clients of the API on the node: logs, exec, attach, port-forward.

mod images;
mod network;
mod ports;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use tokio::sync::mpsc;

use super::logs;
use super::node::Node;
use super::runtime::{ContainerExit, ContainerRecord, PodUid, RuntimeError, SandboxRecord};
use super::spec;
use api::ApiError;
use api::node_access::{Attempt, ImageAccess, LogRequest, NodeAccess, PodPorts, runtime_uid};
use base::clock::{Clock, since};
use base::dial::Transport;
use base::disk_fault::DiskFault;
use base::session::{Session, SessionOutput, SessionStreams};
use base::sort::CollectMap;
use object::SharedObject;

/// Chunks of a log that may be queued for a slow client.
const MAX_QUEUED_CHUNKS: usize = 8;

/// Clients can attach to a container until this long after its end; they get its log and its exit code.
const JUST_ENDED: Duration = Duration::from_secs(10);

/// Serves the API's requests (logs, exec, attach, port-forward) for one node.
pub(super) struct Access {
    pub(super) node: Arc<Node>,
    pub(super) clock: Clock,
}

impl Access {
    /// Returns the pod's sandbox. Checks the runtime's status first, because a client waits: a runtime that does not
    /// respond fails that check sooner than it would fail the request.
    async fn sandbox(&self, pod: &PodUid) -> Result<Option<SandboxRecord>, ApiError> {
        self.refuse_if_paused()?;
        self.node.runtime.status().await.map_err(|error| api_error(&error))?;
        self.node.runtime.inspect(pod).await.map_err(|error| api_error(&error))
    }

    fn refuse_if_paused(&self) -> Result<(), ApiError> {
        if !self.node.tasks.is_paused() {
            return Ok(());
        }
        let name = &self.node.config.name;
        Err(ApiError::Unavailable(format!("the kubelet of node {name} is paused and does not answer")))
    }

    /// The attempts of a container, oldest first.
    async fn attempts(&self, pod: &PodUid, container: &str) -> Result<Vec<ContainerRecord>, ApiError> {
        let sandbox = self.sandbox(pod).await?;
        let all = sandbox.into_iter().flat_map(|s| s.containers);
        Ok(all.filter(|c| c.name == container).collect())
    }

    async fn running(&self, pod: &SharedObject<Pod>, container: &str) -> Result<ContainerRecord, ApiError> {
        let attempts = self.attempts(&runtime_uid(pod).to_string(), container).await?;
        attempts
            .into_iter()
            .next_back()
            .filter(|c| c.exit.is_none())
            .ok_or_else(|| ApiError::Internal(format!("container not found (\"{container}\")")))
    }

    /// Finds the attempt to attach to. A container that a client wants to watch from its start may have ended before
    /// the client connects, as with `kubectl run --attach`.
    async fn running_or_just_ended(
        &self,
        pod: &SharedObject<Pod>,
        container: &str,
    ) -> Result<ContainerRecord, ApiError> {
        let attempts = self.attempts(&runtime_uid(pod).to_string(), container).await?;
        let now = self.clock.now();
        let lately = |exit: &ContainerExit| since(now, exit.finished_at) < JUST_ENDED;
        let last = attempts.into_iter().next_back();
        last.filter(|record| record.exit.as_ref().is_none_or(lately))
            .ok_or_else(|| ApiError::Internal(format!("container not found (\"{container}\")")))
    }

    /// Refuses a request that needs a process if the pod has none.
    fn need_processes(&self, pod: &SharedObject<Pod>, verb: &str) -> Result<(), ApiError> {
        if !self.node.config.hollow {
            return Ok(());
        }
        Err(ApiError::BadRequest(format!(
            "cannot {verb} pod \"{}\": it is on the hollow node {}, which runs no processes",
            pod.name(),
            self.node.config.name
        )))
    }
}

fn api_error(error: &RuntimeError) -> ApiError {
    match error {
        RuntimeError::Host(text) | RuntimeError::HostSilent(text) => ApiError::Unavailable(text.clone()),
        other => ApiError::Internal(other.to_string()),
    }
}

impl NodeAccess for Access {
    fn images(&self) -> Result<Arc<dyn ImageAccess>, ApiError> {
        self.refuse_if_paused()?;
        let service = self.node.runtime.image_service().ok_or(ApiError::NoSuchResource)?;
        Ok(Arc::new(images::Images { node: self.node.clone(), service }))
    }

    fn logs(
        &self,
        pod: SharedObject<Pod>,
        request: LogRequest,
    ) -> BoxFuture<'_, Result<mpsc::Receiver<Bytes>, ApiError>> {
        async move {
            let name = request.container.clone();
            let uid = runtime_uid(&pod).to_string();
            let status = spec::container_status(&pod, &name);
            let attempts = logged_attempts(self.attempts(&uid, &name).await?, status);
            let selected = match choose(attempts, status, request.previous) {
                Some(LoggedAttempt::Known(record)) => record,
                // The log is empty: its stream ends at once.
                Some(LoggedAttempt::NeverStarted) => return Ok(mpsc::channel(1).1),
                Some(LoggedAttempt::Removed(id)) => {
                    return Err(ApiError::BadRequest(format!("unable to retrieve container logs for {id}")));
                }
                None if request.previous => {
                    return Err(ApiError::BadRequest(format!(
                        "previous terminated container \"{name}\" in pod \"{}\" not found",
                        pod.name()
                    )));
                }
                None => {
                    return Err(ApiError::BadRequest(format!(
                        "container \"{name}\" in pod \"{}\" is waiting to start: {}",
                        pod.name(),
                        waiting_reason(status)
                    )));
                }
            };
            let mut request = request;
            if let Some(ago) = request.since_ago.and_then(|ago| SignedDuration::try_from(ago).ok()) {
                // Log lines have times of the node's clock.
                request.since = Some(self.node.clock.now().checked_sub(ago).unwrap_or(Timestamp::MIN));
            }
            if self.node.disk.fault() == Some(DiskFault::Failing) {
                return Err(ApiError::Internal(format!(
                    "failed to open the log of container \"{name}\": input/output error"
                )));
            }
            let (to, from) = mpsc::channel(MAX_QUEUED_CHUNKS);
            let (node, id) = (self.node.clone(), selected.id.clone());
            let ended = selected.exit.is_some();
            let look = move || {
                let (node, id, uid) = (node.clone(), id.clone(), uid.clone());
                async move {
                    let mut running = !ended;
                    if running {
                        running = match node.runtime.inspect(&uid).await {
                            Ok(sandbox) => {
                                let mut all = sandbox.into_iter().flat_map(|s| s.containers);
                                all.any(|c| c.id == id && c.exit.is_none())
                            }
                            // A runtime that does not respond now may do so soon: more lines may come.
                            Err(_) => true,
                        };
                    }
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "the reader looks again as long as it runs"
                    )]
                    let files = node.runtime.log_files(&id).await.unwrap_or_default();
                    logs::LogState { files, running }
                }
                .boxed()
            };
            self.node.tasks.spawn("log reader", logs::send(request, to, look));
            Ok(from)
        }
        .boxed()
    }

    fn exec(
        &self,
        pod: SharedObject<Pod>,
        container: String,
        command: Vec<String>,
        streams: SessionStreams,
    ) -> BoxFuture<'_, Result<Session, ApiError>> {
        async move {
            let record = self.running(&pod, &container).await?;
            self.need_processes(&pod, "exec into")?;
            let program = command.first().cloned().unwrap_or_default();
            match self.node.runtime.exec(&record.id, command, streams).await {
                // The container exists but the command does not: a session that ends at once.
                Err(RuntimeError::StartFailed(why)) => Ok(failed(format!(
                    "error executing command in container: failed to exec in container: failed to start exec \
                     \"{program}\": {why}"
                ))),
                other => other.map_err(|error| api_error(&error)),
            }
        }
        .boxed()
    }

    fn attach(
        &self,
        pod: SharedObject<Pod>,
        container: String,
        streams: SessionStreams,
    ) -> BoxFuture<'_, Result<Session, ApiError>> {
        async move {
            let record = self.running_or_just_ended(&pod, &container).await?;
            self.need_processes(&pod, "attach to")?;
            self.node.runtime.attach(&record.id, streams).await.map_err(|error| api_error(&error))
        }
        .boxed()
    }

    fn listeners(
        &self,
        pod: SharedObject<Pod>,
        transport: Transport,
    ) -> BoxFuture<'_, Result<Vec<SocketAddr>, ApiError>> {
        async move { self.every_listener(&runtime_uid(&pod).to_string(), transport).await }.boxed()
    }

    fn connect(&self, pod: SharedObject<Pod>, to: SocketAddr) -> BoxFuture<'_, Result<Attempt, ApiError>> {
        async move { self.attempt(&runtime_uid(&pod).to_string(), to).await }.boxed()
    }

    fn port_forward(&self, pod: SharedObject<Pod>) -> BoxFuture<'_, Result<Arc<dyn PodPorts>, ApiError>> {
        async move {
            let uid = pod.uid().to_string();
            let sandbox = self.sandbox(&uid).await?;
            if !sandbox.is_some_and(|sandbox| sandbox.ready) {
                let (name, namespace) = (pod.name(), pod.metadata.namespace.as_deref().unwrap_or_default());
                return Err(ApiError::Internal(format!(
                    "failed to find sandboxID for pod {name}_{namespace}({uid})"
                )));
            }
            self.need_processes(&pod, "forward ports to")?;
            Ok(Arc::new(ports::Ports { node: self.node.clone(), sandbox: uid }) as Arc<dyn PodPorts>)
        }
        .boxed()
    }
}

/// Creates a session that only reports this failure.
fn failed(reason: String) -> Session {
    let (input, _) = mpsc::channel(1);
    let (end, output) = mpsc::channel(1);
    // The channel has capacity for one.
    let _ = end.try_send(SessionOutput::Failed(reason));
    Session { input, output }
}

/// An attempt of a container that has a log to read.
#[derive(Debug, PartialEq, Eq)]
enum LoggedAttempt {
    /// The runtime has a record of it.
    Known(ContainerRecord),
    /// Its program could not be started: its log is empty.
    NeverStarted,
    /// The runtime no longer has it; holds its ID.
    Removed(String),
}

/// The attempts in the runtime's records and those that only the status lists, oldest first.
fn logged_attempts(records: Vec<ContainerRecord>, status: Option<&ContainerStatus>) -> Vec<LoggedAttempt> {
    let known = records.into_iter().map(|record| (record.attempt, LoggedAttempt::Known(record)));
    let mut attempts: BTreeMap<u32, LoggedAttempt> = known.collect_map();
    let Some(status) = status else { return attempts.into_values().collect() };
    let current = u32::try_from(status.restart_count).ok();
    // While a container waits, its last state is that of the attempt that was counted last.
    let last = if waits(status) { current } else { current.and_then(|current| current.checked_sub(1)) };
    for (number, state) in [(last, &status.last_state), (current, &status.state)] {
        let ended = state.as_ref().and_then(|state| state.terminated.as_ref());
        let (Some(number), Some(ended)) = (number, ended) else { continue };
        attempts.entry(number).or_insert_with(|| match ended.reason.as_deref() {
            Some("StartError") => LoggedAttempt::NeverStarted,
            _ => LoggedAttempt::Removed(ended.container_id.clone().unwrap_or_default()),
        });
    }
    attempts.into_values().collect()
}

fn waits(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.waiting.is_some())
}

/// Chooses the attempt to read the log of. `previous` selects the last state: while a container waits for its restart,
/// that is its newest attempt, as in Kubernetes.
fn choose(
    mut attempts: Vec<LoggedAttempt>,
    status: Option<&ContainerStatus>,
    previous: bool,
) -> Option<LoggedAttempt> {
    let runs = matches!(attempts.last(), Some(LoggedAttempt::Known(record)) if record.exit.is_none());
    if previous && (runs || !status.is_some_and(waits)) {
        attempts.pop();
    }
    attempts.pop()
}

fn waiting_reason(status: Option<&ContainerStatus>) -> String {
    let waiting = status.and_then(|s| s.state.as_ref()?.waiting.as_ref());
    let Some(waiting) = waiting else { return "ContainerCreating".into() };
    match waiting.reason.as_deref() {
        Some("ErrImagePull" | "ImagePullBackOff") => "trying and failing to pull image".into(),
        Some("ErrImageNeverPull") => "image can't be pulled".into(),
        Some(reason) => reason.into(),
        None => "ContainerCreating".into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::runtime::ContainerId;

    /// Returns the attempts that `logs` and `logs --previous` show: numbers of the runtime's, `empty`, `gone ID`,
    /// `none`.
    fn chosen(known: &[u32], status: Value) -> String {
        let status: ContainerStatus = serde_json::from_value(status).unwrap();
        let runs = status.state.as_ref().is_some_and(|state| state.running.is_some());
        let ended = ContainerExit { exit_code: 1, ..ContainerExit::default() };
        let record = |attempt: &u32| ContainerRecord {
            id: ContainerId(attempt.to_string()),
            name: "c".into(),
            attempt: *attempt,
            exit: (!runs || known.last() != Some(attempt)).then(|| ended.clone()),
            ..ContainerRecord::default()
        };
        let choice = |previous: bool| {
            let attempts = logged_attempts(known.iter().map(record).collect(), Some(&status));
            match choose(attempts, Some(&status), previous) {
                Some(LoggedAttempt::Known(record)) => record.attempt.to_string(),
                Some(LoggedAttempt::NeverStarted) => "empty".to_owned(),
                Some(LoggedAttempt::Removed(id)) => format!("gone {id}"),
                None => "none".to_owned(),
            }
        };
        format!("{}, {}", choice(false), choice(true))
    }

    /// The container's status decides, as in Kubernetes.
    #[test]
    fn logs_are_those_of_the_attempt_that_the_status_shows_api_3() {
        let ended = |reason: &str| json!({"terminated": {"exitCode": 128, "reason": reason, "containerID": "podium://x"}});
        let waits = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let runs = json!({"running": {}});
        let status = |count: u32, state: &Value, last: &Value| {
            json!({"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": count, "state": state,
                "lastState": last})
        };
        let none = json!({});
        for (known, status, expected) in [
            (&[][..], status(0, &json!({"waiting": {"reason": "ContainerCreating"}}), &none), "none, none"),
            (&[], status(0, &ended("StartError"), &none), "empty, none"),
            (&[], status(3, &waits, &ended("StartError")), "empty, empty"),
            (&[], status(3, &ended("StartError"), &ended("StartError")), "empty, empty"),
            (&[0], status(1, &ended("StartError"), &ended("Error")), "empty, 0"),
            (&[0], status(1, &waits, &ended("StartError")), "empty, empty"),
            (&[0, 1], status(1, &waits, &ended("Error")), "1, 1"),
            (&[2], status(2, &runs, &ended("StartError")), "2, empty"),
            // The status is older than the start.
            (&[2], status(1, &ended("StartError"), &none), "2, empty"),
            (&[1], status(1, &ended("Error"), &ended("Error")), "1, gone podium://x"),
            (&[], status(0, &ended("ContainerStatusUnknown"), &none), "gone podium://x, none"),
            (&[0, 1], status(1, &runs, &ended("Error")), "1, 0"),
        ] {
            assert_eq!(chosen(known, status.clone()), expected, "{known:?} {status}");
        }
    }
}
