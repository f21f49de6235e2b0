//! The log of a container, as a stream of text.

use axum::body::Body;
use axum::response::Response;
use futures::StreamExt;
use http::StatusCode;
use k8s_openapi::api::core::v1::Pod;

use super::Server;
use super::request::Query;
use super::respond::Answer;
use crate::api::ApiError;
use crate::api::node_access::LogRequest;

use crate::object::{Key, Shared};

pub(super) async fn answer(server: &Server, key: &Key, query: &Query) -> Result<Response, ApiError> {
    let api = server.api();
    let pod = api.get_as::<Pod>(key)?;
    let container = container_of(&pod, query.get("container"))?;
    let since_seconds = query.number::<u64>("sinceSeconds")?;
    let since = match query.get("sinceTime") {
        Some(text) => Some(text.parse().map_err(|_| {
            ApiError::BadRequest(format!("invalid value \"{text}\" of the parameter sinceTime"))
        })?),
        None => since_seconds.map(|seconds| {
            let back = jiff::SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
            api.clock().now().checked_sub(back).unwrap_or(jiff::Timestamp::MIN)
        }),
    };
    let request = LogRequest {
        container,
        follow: query.flag("follow"),
        previous: query.flag("previous"),
        since,
        tail_lines: query.number("tailLines")?,
        limit_bytes: query.number("limitBytes")?,
        timestamps: query.flag("timestamps"),
    };
    let node = server.node_of(&pod)?;
    let chunks = node.logs(pod, request).await?;
    let stopping = server.inner.stopping.clone().cancelled_owned();
    let stream =
        super::watch::receiver_stream(chunks).take_until(stopping).map(Ok::<_, std::convert::Infallible>);
    Ok(Answer::typed(StatusCode::OK, "text/plain", Body::from_stream(stream)))
}

/// The container a request is about: the named one, or the only one.
pub(super) fn container_of(pod: &Shared<Pod>, asked: Option<&str>) -> Result<String, ApiError> {
    let spec = pod.spec.clone().unwrap_or_default();
    let regular: Vec<String> = spec.containers.iter().map(|c| c.name.clone()).collect();
    let init: Vec<String> = spec.init_containers.iter().flatten().map(|c| c.name.clone()).collect();
    let ephemeral: Vec<String> = spec.ephemeral_containers.iter().flatten().map(|c| c.name.clone()).collect();
    let name = pod.name();
    match asked {
        Some(asked) if [&regular, &init, &ephemeral].iter().any(|names| names.iter().any(|n| n == asked)) => {
            Ok(asked.to_string())
        }
        Some(asked) => Err(ApiError::BadRequest(format!("container {asked} is not valid for pod {name}"))),
        None => {
            let default = pod
                .metadata
                .annotations
                .as_ref()
                .and_then(|a| a.get("kubectl.kubernetes.io/default-container"))
                .filter(|d| regular.contains(d));
            match (default, regular.as_slice()) {
                (Some(default), _) => Ok(default.clone()),
                (None, [only]) => Ok(only.clone()),
                (None, many) => {
                    let inits = if init.is_empty() {
                        String::new()
                    } else {
                        format!(" or one of the init containers: [{}]", init.join(" "))
                    };
                    Err(ApiError::BadRequest(format!(
                        "a container name must be specified for pod {name}, choose one of: [{}]{inits}",
                        many.join(" ")
                    )))
                }
            }
        }
    }
}

impl Server {
    /// The kubelet that runs the pod.
    pub(super) fn node_of(
        &self,
        pod: &Shared<Pod>,
    ) -> Result<std::sync::Arc<dyn crate::api::node_access::NodeAccess>, ApiError> {
        let node = pod.spec.as_ref().and_then(|s| s.node_name.clone()).filter(|n| !n.is_empty());
        let Some(node) = node else {
            return Err(ApiError::BadRequest(format!("pod {} does not have a host assigned", pod.name())));
        };
        self.api()
            .node_access(&node)
            .ok_or_else(|| ApiError::Unavailable(format!("the kubelet of node {node} cannot be reached")))
    }
}
