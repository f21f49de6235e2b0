//! Operations that only a pod's node can do: logs, exec, attach, port-forward, and those on the node's images.
//!
//! Each kubelet registers itself under its node's name; requests about a pod go to its node's kubelet.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::ApiError;
use base::dial::Transport;
use base::duplex::Duplex;
use base::session::{Session, SessionStreams};
use object::SharedObject;
use object::node_image::{NodeImageDetails, NodeImagePull, NodeImages};
use object::well_known::annotation;

/// The requested part of a container's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRequest {
    /// The container's name; already resolved, never empty.
    pub container: String,
    /// Continue as the container writes.
    pub follow: bool,
    /// The log of the previous attempt.
    pub previous: bool,
    /// Only lines written after this.
    pub since: Option<Timestamp>,
    /// Only lines written within this time before now, on the node's clock.
    pub since_ago: Option<Duration>,
    /// Only this many lines from the end.
    pub tail_lines: Option<u64>,
    /// Stop after this many bytes.
    pub limit_bytes: Option<u64>,
    /// Prefix each line with its time.
    pub timestamps: bool,
    /// Only output of this stream.
    pub stream: Option<LogStream>,
}

/// A logged output stream of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Returns the uid under which the pod's node knows it: a mirror pod's object has a uid of its own in the
/// API.
pub fn runtime_uid(pod: &SharedObject<Pod>) -> &str {
    let mirrored = pod.metadata.annotations.as_ref().and_then(|a| a.get(annotation::MIRROR_POD));
    mirrored.map_or(pod.uid(), String::as_str)
}

/// The result of a connection attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Attempt {
    /// The connection was established.
    Connected,
    /// Refused, or reset at once.
    Refused,
    /// No response arrived in time.
    TimedOut,
    /// No route, in the kernel's words.
    Unreachable(String),
}

/// The reason why a pod's port cannot be reached, as it appears in Kubernetes' error messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnreachableError(pub String);

/// A running pod's ports, for port-forward.
pub trait PodPorts: Send + Sync {
    /// Returns the identity of the pod's sandbox, which error messages name.
    fn sandbox(&self) -> &str;

    /// Connects to the process *of this pod* that listens on the port, be it on the pod's address, on
    /// localhost or on every address.
    fn connect(&self, port: u16) -> BoxFuture<'_, Result<Box<dyn Duplex>, UnreachableError>>;
}

/// The operations on a node's images.
pub trait ImageAccess: Send + Sync {
    /// Returns the images and the pulls in progress.
    fn list(&self) -> BoxFuture<'_, Result<NodeImages, ApiError>>;

    /// Describes the image of a name or an id.
    fn details(&self, name: String) -> BoxFuture<'_, Result<NodeImageDetails, ApiError>>;

    /// Explains how a name resolves on the node, and what its registry has; takes some seconds if the registry does
    /// not answer.
    fn explain(&self, name: String) -> BoxFuture<'_, Result<String, ApiError>>;

    /// Starts a pull of the image, unless one is in progress; [`Self::list`] shows how it goes on.
    fn pull(&self, name: &str) -> Result<NodeImagePull, ApiError>;

    /// Removes a name, or an image with all its names by its id, unless a container uses it. Returns the removed names,
    /// and the id if the image itself was removed.
    fn remove(&self, name: String) -> BoxFuture<'_, Result<Vec<String>, ApiError>>;
}

/// The operations that a node's kubelet offers to clients of the API.
pub trait NodeAccess: Send + Sync {
    /// Returns the access to the node's images; fails if the node has none of its own.
    fn images(&self) -> Result<Arc<dyn ImageAccess>, ApiError>;

    /// Returns a container's log, in chunks; ends with the log (never, when following a running container).
    fn logs(
        &self,
        pod: SharedObject<Pod>,
        request: LogRequest,
    ) -> BoxFuture<'_, Result<mpsc::Receiver<Bytes>, ApiError>>;

    /// Runs a command in a running container.
    fn exec(
        &self,
        pod: SharedObject<Pod>,
        container: String,
        command: Vec<String>,
        streams: SessionStreams,
    ) -> BoxFuture<'_, Result<Session, ApiError>>;

    /// Connects to a running container's own streams.
    fn attach(
        &self,
        pod: SharedObject<Pod>,
        container: String,
        streams: SessionStreams,
    ) -> BoxFuture<'_, Result<Session, ApiError>>;

    /// Returns the addresses on which processes of a running pod listen, as they are bound.
    fn listeners(
        &self,
        pod: SharedObject<Pod>,
        transport: Transport,
    ) -> BoxFuture<'_, Result<Vec<SocketAddr>, ApiError>>;

    /// Opens a connection from a running pod's network and closes it again; returns the result within a few
    /// seconds.
    fn connect(&self, pod: SharedObject<Pod>, to: SocketAddr) -> BoxFuture<'_, Result<Attempt, ApiError>>;

    /// Returns the ports of a pod that has a sandbox.
    fn port_forward(&self, pod: SharedObject<Pod>) -> BoxFuture<'_, Result<Arc<dyn PodPorts>, ApiError>>;
}
