//! The log of a container, as a stream of text.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use futures::StreamExt;
use http::StatusCode;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::connection::ReadMode;
use super::query::Query;
use super::respond::Responder;
use super::upgrade::{self, Upgrade};
use super::{Server, log_socket};
use api::ApiError;
use api::node_access::{LogRequest, LogStream};
use apimachinery::validate::{FieldErrors, Path};
use object::well_known::annotation;
use object::{Key, SharedObject};

/// The requested part of a log, as given in the query.
#[derive(Debug, Default)]
struct Options {
    since_seconds: Option<i64>,
    since: Option<Timestamp>,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
    stream: Option<String>,
}

/// The values of the parameter `stream`.
const STREAMS: [&str; 3] = ["All", "Stderr", "Stdout"];

impl Options {
    fn read(query: &Query) -> Result<Self, ApiError> {
        let time = |text: &str| {
            text.parse().map_err(|_| {
                ApiError::BadRequest(format!("invalid value \"{text}\" of the parameter sinceTime"))
            })
        };
        Ok(Self {
            since_seconds: query.number("sinceSeconds")?,
            since: query.get("sinceTime").map(time).transpose()?,
            tail_lines: query.number("tailLines")?,
            limit_bytes: query.number("limitBytes")?,
            stream: query.get("stream").map(Into::into),
        })
    }

    /// Checks the options by Kubernetes' rules (`ValidatePodLogOptions`).
    fn check(&self, pod: &str) -> Result<(), ApiError> {
        let mut errors = FieldErrors::default();
        let root = Path::root("");
        if let Some(lines) = self.tail_lines {
            errors.non_negative(&Path::root("tailLines"), lines);
        }
        if let Some(bytes) = self.limit_bytes.filter(|bytes| *bytes < 1) {
            errors.invalid(&Path::root("limitBytes"), &bytes, "must be greater than 0");
        }
        match self.since_seconds {
            Some(_) if self.since.is_some() => {
                errors.forbidden(&root, "at most one of `sinceTime` or `sinceSeconds` may be specified");
            }
            Some(seconds) if seconds < 1 => {
                errors.invalid(&Path::root("sinceSeconds"), &seconds, "must be greater than 0");
            }
            _ => {}
        }
        if let Some(stream) = &self.stream {
            errors.one_of(&Path::root("stream"), stream, &STREAMS);
            if stream != "All" && self.tail_lines.is_some() {
                let detail = "`tailLines` and specific `stream` are mutually exclusive for now";
                errors.forbidden(&root, detail);
            }
        }
        errors.refuse_request("PodLogOptions", "", pod)
    }

    fn request(&self, container: String, query: &Query) -> LogRequest {
        let ago = self.since_seconds.and_then(|seconds| seconds.try_into().ok());
        LogRequest {
            container,
            follow: query.flag("follow"),
            previous: query.flag("previous"),
            since: self.since,
            since_ago: ago.map(Duration::from_secs),
            tail_lines: self.tail_lines.and_then(|lines| lines.try_into().ok()),
            limit_bytes: self.limit_bytes.and_then(|bytes| bytes.try_into().ok()),
            timestamps: query.flag("timestamps"),
            stream: match self.stream.as_deref() {
                Some("Stdout") => Some(LogStream::Stdout),
                Some("Stderr") => Some(LogStream::Stderr),
                _ => None,
            },
        }
    }
}

/// Responds with a log; over WebSocket if the client requests that.
pub(super) async fn handle(
    server: &Server,
    key: &Key,
    request: Request,
    query: &Query,
) -> Result<Response, ApiError> {
    let api = server.api();
    let pod = api.get_as::<Pod>(key)?;
    let options = Options::read(query)?;
    options.check(&key.name)?;
    let container = container_of(&pod, query.get("container"))?;
    let socket = if upgrade::is_web_socket(request.headers()) { Some(Upgrade::of(request)?) } else { None };
    let request = options.request(container, query);
    let node = server.node_of(&pod)?;
    let chunks = node.logs(pod, request).await?;
    let stopping = server.inner.stopping.clone().cancelled_owned();
    let stream = super::receiver_stream::receiver_stream(chunks).take_until(stopping);
    if let Some(socket) = socket {
        return log_socket::handle(server, socket, stream);
    }
    let body = Body::from_stream(stream.map(Ok::<_, std::convert::Infallible>));
    let mut response = Responder::typed(StatusCode::OK, "text/plain", body);
    response.extensions_mut().insert(ReadMode::Interactive);
    Ok(response)
}

/// Returns the container of a request: the named one, or the only one.
pub(super) fn container_of(pod: &SharedObject<Pod>, requested: Option<&str>) -> Result<String, ApiError> {
    let spec = pod.spec.clone().unwrap_or_default();
    let regular: Vec<String> = spec.containers.iter().map(|c| c.name.clone()).collect();
    let init: Vec<String> = spec.init_containers.iter().flatten().map(|c| c.name.clone()).collect();
    let ephemeral: Vec<String> = spec.ephemeral_containers.iter().flatten().map(|c| c.name.clone()).collect();
    let name = pod.name();
    match requested {
        Some(requested)
            if [&regular, &init, &ephemeral].iter().any(|names| names.iter().any(|n| n == requested)) =>
        {
            Ok(requested.to_string())
        }
        Some(requested) => {
            Err(ApiError::BadRequest(format!("container {requested} is not valid for pod {name}")))
        }
        None => {
            let default = pod
                .metadata
                .annotations
                .as_ref()
                .and_then(|a| a.get(annotation::DEFAULT_CONTAINER))
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
    /// Returns the kubelet that runs the pod.
    pub(super) fn node_of(
        &self,
        pod: &SharedObject<Pod>,
    ) -> Result<std::sync::Arc<dyn api::node_access::NodeAccess>, ApiError> {
        let node = pod.spec.as_ref().and_then(|s| s.node_name.clone()).filter(|n| !n.is_empty());
        let Some(node) = node else {
            return Err(ApiError::BadRequest(format!("pod {} does not have a host assigned", pod.name())));
        };
        self.api()
            .node_access(&node)
            .ok_or_else(|| ApiError::Unavailable(format!("cannot reach the kubelet of node {node}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts are Kubernetes'.
    #[test]
    fn the_options_of_a_log_are_checked_api_3() {
        let check = |query: &str, expected: &str| {
            let options = Options::read(&Query::parse(query)).unwrap();
            let found = options.check("web").err().map(|error| (error.code(), error.to_string()));
            let expected = (!expected.is_empty())
                .then(|| (422, format!("PodLogOptions \"web\" is invalid: {expected}")));
            assert_eq!(found, expected, "{query}");
        };
        check("", "");
        check("sinceSeconds=1&limitBytes=1&tailLines=0&stream=All", "");
        check("sinceTime=2026-01-01T00:00:00Z", "");
        check("sinceSeconds=0", "sinceSeconds: Invalid value: 0: must be greater than 0");
        check("limitBytes=0", "limitBytes: Invalid value: 0: must be greater than 0");
        check("tailLines=-1", "tailLines: Invalid value: -1: must be greater than or equal to 0");
        check(
            "sinceSeconds=5&sinceTime=2026-01-01T00:00:00Z",
            "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        );
        check(
            "stream=Bad",
            "stream: Unsupported value: \"Bad\": supported values: \"All\", \"Stderr\", \"Stdout\"",
        );
        check(
            "stream=Stdout&tailLines=5",
            "Forbidden: `tailLines` and specific `stream` are mutually exclusive for now",
        );
    }
}
