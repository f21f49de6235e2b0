//! The node's door for clients of the API: logs, exec, attach.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::mpsc;

use super::logs;
use super::node::Node;
use super::runtime::{ContainerRecord, PodUid, RuntimeError};
use crate::api::ApiError;
use crate::api::node_access::{LogRequest, NodeAccess, runtime_uid};
use crate::api::session::{Session, SessionStreams};
use crate::object::Shared;

/// Pieces of a log on their way to a slow client.
const PIECES_UNDER_WAY: usize = 8;

/// One node's door.
pub(super) struct Access {
    pub(super) node: Arc<Node>,
}

impl Access {
    /// The attempts of a container, oldest first.
    async fn attempts(&self, pod: &PodUid, container: &str) -> Result<Vec<ContainerRecord>, ApiError> {
        let sandbox = self.node.runtime.inspect(pod).await.map_err(|error| told(&error))?;
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
}

fn told(error: &RuntimeError) -> ApiError {
    match error {
        RuntimeError::Host(text) => ApiError::Unavailable(text.clone()),
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
                    logs::Look { files: node.runtime.log_files(&id).await.unwrap_or_default(), running }
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
            self.node.runtime.exec(&record.id, command, streams).await.map_err(|error| told(&error))
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
            let record = self.running(&pod, &container).await?;
            self.node.runtime.attach(&record.id, streams).await.map_err(|error| told(&error))
        }
        .boxed()
    }
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
