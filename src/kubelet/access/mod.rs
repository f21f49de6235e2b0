//! The node's door for clients of the API: logs, exec, attach, port-forward.

mod network;
mod ports;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::mpsc;

use super::faults::NodeDiskFault;
use super::logs;
use super::node::Node;
use super::runtime::{ContainerExit, ContainerRecord, PodUid, RuntimeError, SandboxRecord};
use api::ApiError;
use api::node_access::{Attempt, LogRequest, NodeAccess, PodPorts, runtime_uid};
use base::clock::{Clock, since};
use base::dial::Transport;
use base::session::{Session, SessionOutput, SessionStreams};
use object::Shared;

/// Pieces of a log on their way to a slow client.
const PIECES_UNDER_WAY: usize = 8;

/// For so long after its end a container may still be attached to: its log and its end are sent.
const JUST_ENDED: Duration = Duration::from_secs(10);

/// One node's door.
pub(super) struct Access {
    pub(super) node: Arc<Node>,
    pub(super) clock: Clock,
}

impl Access {
    /// A pod's sandbox. Somebody waits for the answer: a runtime that does not even say that it is there is given up
    /// sooner than one that is slow.
    async fn sandbox(&self, pod: &PodUid) -> Result<Option<SandboxRecord>, ApiError> {
        if self.node.tasks.is_paused() {
            let name = &self.node.config.name;
            return Err(ApiError::Unavailable(format!(
                "the kubelet of node {name} stands still and does not answer"
            )));
        }
        self.node.runtime.status().await.map_err(|error| api_error(&error))?;
        self.node.runtime.inspect(pod).await.map_err(|error| api_error(&error))
    }

    /// The attempts of a container, oldest first.
    async fn attempts(&self, pod: &PodUid, container: &str) -> Result<Vec<ContainerRecord>, ApiError> {
        let sandbox = self.sandbox(pod).await?;
        let all = sandbox.into_iter().flat_map(|s| s.containers);
        Ok(all.filter(|c| c.name == container).collect())
    }

    async fn running(&self, pod: &Shared<Pod>, container: &str) -> Result<ContainerRecord, ApiError> {
        let attempts = self.attempts(&runtime_uid(pod).to_string(), container).await?;
        attempts
            .into_iter()
            .next_back()
            .filter(|c| c.exit.is_none())
            .ok_or_else(|| ApiError::Internal(format!("container not found (\"{container}\")")))
    }

    /// The attempt to attach to: what a client wanted to see from the beginning may be over before it is here, as with
    /// `kubectl run --attach`.
    async fn running_or_just_ended(
        &self,
        pod: &Shared<Pod>,
        container: &str,
    ) -> Result<ContainerRecord, ApiError> {
        let attempts = self.attempts(&runtime_uid(pod).to_string(), container).await?;
        let now = self.clock.now();
        let lately = |exit: &ContainerExit| since(now, exit.finished_at) < JUST_ENDED;
        let last = attempts.into_iter().next_back();
        last.filter(|record| record.exit.as_ref().is_none_or(lately))
            .ok_or_else(|| ApiError::Internal(format!("container not found (\"{container}\")")))
    }
}

fn api_error(error: &RuntimeError) -> ApiError {
    match error {
        RuntimeError::Host(text) | RuntimeError::HostSilent(text) => ApiError::Unavailable(text.clone()),
        other => ApiError::Internal(other.to_string()),
    }
}

impl NodeAccess for Access {
    fn logs(
        &self,
        pod: Shared<Pod>,
        request: LogRequest,
    ) -> BoxFuture<'_, Result<mpsc::Receiver<Bytes>, ApiError>> {
        async move {
            let name = request.container.clone();
            let uid = runtime_uid(&pod).to_string();
            let mut attempts = self.attempts(&uid, &name).await?;
            let wanted = if request.previous {
                attempts.pop();
                attempts.pop().ok_or_else(|| {
                    ApiError::BadRequest(format!(
                        "previous terminated container \"{name}\" in pod \"{}\" not found",
                        pod.name()
                    ))
                })?
            } else {
                attempts.pop().ok_or_else(|| {
                    ApiError::BadRequest(format!(
                        "container \"{name}\" in pod \"{}\" is waiting to start: {}",
                        pod.name(),
                        waiting_reason(&pod, &name)
                    ))
                })?
            };
            let mut request = request;
            if let Some(ago) = request.since_ago.and_then(|ago| SignedDuration::try_from(ago).ok()) {
                // Lines have the node's time.
                request.since = Some(self.node.clock.now().checked_sub(ago).unwrap_or(Timestamp::MIN));
            }
            if self.node.disk.fault() == Some(NodeDiskFault::Failing) {
                return Err(ApiError::Internal(format!(
                    "failed to open the log of container \"{name}\": input/output error"
                )));
            }
            let (to, from) = mpsc::channel(PIECES_UNDER_WAY);
            let (node, id) = (self.node.clone(), wanted.id.clone());
            let ended = wanted.exit.is_some();
            let look = move || {
                let (node, id, uid) = (node.clone(), id.clone(), uid.clone());
                async move {
                    let mut running = !ended;
                    if running {
                        let sandbox = node.runtime.inspect(&uid).await.ok().flatten();
                        let record = sandbox.and_then(|s| s.containers.into_iter().find(|c| c.id == id));
                        running = record.is_some_and(|r| r.exit.is_none());
                    }
                    logs::LogState { files: node.runtime.log_files(&id).await.unwrap_or_default(), running }
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
        pod: Shared<Pod>,
        container: String,
        command: Vec<String>,
        streams: SessionStreams,
    ) -> BoxFuture<'_, Result<Session, ApiError>> {
        async move {
            let record = self.running(&pod, &container).await?;
            let program = command.first().cloned().unwrap_or_default();
            match self.node.runtime.exec(&record.id, command, streams).await {
                // The container is there and the command is not: a session that ends at once.
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
        pod: Shared<Pod>,
        container: String,
        streams: SessionStreams,
    ) -> BoxFuture<'_, Result<Session, ApiError>> {
        async move {
            let record = self.running_or_just_ended(&pod, &container).await?;
            self.node.runtime.attach(&record.id, streams).await.map_err(|error| api_error(&error))
        }
        .boxed()
    }

    fn listeners(
        &self,
        pod: Shared<Pod>,
        transport: Transport,
    ) -> BoxFuture<'_, Result<Vec<SocketAddr>, ApiError>> {
        async move { self.every_listener(&runtime_uid(&pod).to_string(), transport).await }.boxed()
    }

    fn connect(&self, pod: Shared<Pod>, to: SocketAddr) -> BoxFuture<'_, Result<Attempt, ApiError>> {
        async move { self.attempt(&runtime_uid(&pod).to_string(), to).await }.boxed()
    }

    fn port_forward(&self, pod: Shared<Pod>) -> BoxFuture<'_, Result<Arc<dyn PodPorts>, ApiError>> {
        async move {
            let uid = pod.uid().to_string();
            let sandbox = self.sandbox(&uid).await?;
            if !sandbox.is_some_and(|sandbox| sandbox.ready) {
                let (name, namespace) = (pod.name(), pod.metadata.namespace.as_deref().unwrap_or_default());
                return Err(ApiError::Internal(format!(
                    "failed to find sandboxID for pod {name}_{namespace}({uid})"
                )));
            }
            Ok(Arc::new(ports::Ports { node: self.node.clone(), sandbox: uid }) as Arc<dyn PodPorts>)
        }
        .boxed()
    }
}

/// A session that has failed before it began.
fn failed(why: String) -> Session {
    let (input, _) = mpsc::channel(1);
    let (end, output) = mpsc::channel(1);
    // There is room for one.
    let _ = end.try_send(SessionOutput::Failed(why));
    Session { input, output }
}

fn waiting_reason(pod: &Pod, container: &str) -> String {
    let status = pod.status.as_ref();
    let all = status
        .into_iter()
        .flat_map(|s| [&s.init_container_statuses, &s.container_statuses, &s.ephemeral_container_statuses]);
    let waiting = all
        .flatten()
        .flatten()
        .find(|s| s.name == container)
        .and_then(|s| s.state.as_ref()?.waiting.as_ref());
    let Some(waiting) = waiting else { return "ContainerCreating".into() };
    match waiting.reason.as_deref() {
        Some("ErrImagePull" | "ImagePullBackOff") => "trying and failing to pull image".into(),
        Some("ErrImageNeverPull") => "image can't be pulled".into(),
        Some(reason) => reason.into(),
        None => "ContainerCreating".into(),
    }
}
