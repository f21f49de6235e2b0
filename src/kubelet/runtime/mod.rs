//! The kubelet's interface to the operating system: the container runtime, shaped like Kubernetes' CRI.
//!
//! All OS work of a node sits behind [`Runtime`]. `process` implements it with real processes held by the node's host
//! process ([`host`]), of which it is the client; `hollow` without any. The kubelet decides (`plan`), the runtime
//! executes.
//!
//! Architecture Invariant: nothing here knows the API server, restart policies or probes.

mod events;
pub mod hollow;
mod process;

pub use events::RuntimeEvents;
pub use process::{HostLife, NodeNetwork, NodeSockets, ProcessConfig, ProcessRuntime};

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

pub(crate) use super::images::Image;
use base::dial::{Dialer, OwnNetwork, Transport};
use base::session::{Session, SessionStreams};
pub use host::{
    ContainerExit, ContainerId, ContainerRecord, ContainerSpec, ExecOutput, HostDiskFault, HostFaults,
    HostShares, Memory, MemoryVolume, Mount, PodUid, ResourceLimits, RuntimeError, SandboxRecord,
    SandboxSpec, Security, Usage, UsageByPod,
};

/// Something happened that the kubelet should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeEvent {
    /// A container of this pod ended, or its sandbox did.
    PodChanged(PodUid),
    /// The connection to the node's host was lost and found again: look at every pod.
    Relist,
}

/// The container runtime of one node.
///
/// Every call is safe to repeat: asking for what is already so answers as if it had just been done.
pub trait Runtime: Send + Sync + 'static {
    /// The node's `containerRuntimeVersion`, e.g. `podium://0.1.0` or `hollow://0.1.0`.
    fn version(&self) -> String;

    /// The isolation of containers here, for the Node's annotations (key → value).
    fn isolation(&self) -> BTreeMap<String, String>;

    /// The memory file system for content that the kubelet writes for pods; none if there is none. A restarted runtime
    /// has another one: the content of the one before is lost.
    fn memory(&self) -> Option<Arc<Memory>> {
        None
    }

    /// This is wrong with the node's clock and disk on purpose from now on, and nothing else: what the runtime writes meets it.
    /// Never waits.
    fn suffer(&self, faults: HostFaults) {
        let _ = faults;
    }

    /// Subscribes to what happens from now on. There is one subscriber: the one before it gets no more events.
    fn events(&self) -> RuntimeEvents;

    /// Answers while the runtime does (CRI's `Status`); an error, or nothing for a while, where it does not.
    fn status(&self) -> BoxFuture<'_, Result<(), RuntimeError>>;

    /// Every sandbox and container the node has, running or not.
    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxRecord>, RuntimeError>>;

    /// One pod's sandbox and containers.
    fn inspect<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<Option<SandboxRecord>, RuntimeError>>;

    /// The image that a reference means, if the machine has it (CRI's `ImageStatus`). Nothing is pulled: there is no
    /// `PullImage`.
    fn image_status<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<Image, RuntimeError>>;

    /// Returns true if a user loaded the image on this node; images of the catalogue are not loaded.
    fn is_image_loaded(&self, reference: &str) -> bool {
        let _ = reference;
        false
    }

    /// The images that were loaded on this node, with all their names.
    fn loaded_images(&self) -> Vec<(Vec<String>, Image)> {
        Vec::new()
    }

    /// Makes the pod's sandbox (directories, namespaces).
    fn run_sandbox(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<SandboxRecord, RuntimeError>>;

    /// Kills every process of the pod and answers once all are confirmed dead.
    fn stop_sandbox<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<(), RuntimeError>>;

    /// Replaces what the pod's `/etc/hosts` says, for its running containers too.
    fn write_hosts<'a>(&'a self, pod: &'a PodUid, text: String) -> BoxFuture<'a, Result<(), RuntimeError>>;

    /// Forgets a stopped pod: its records, logs and private directories.
    fn remove_sandbox<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<(), RuntimeError>>;

    /// Starts one attempt of a container in its pod's sandbox.
    fn start_container(&self, spec: ContainerSpec) -> BoxFuture<'_, Result<ContainerRecord, RuntimeError>>;

    /// Holds a running container to other limits.
    fn resize_container<'a>(
        &'a self,
        id: &'a ContainerId,
        limits: ResourceLimits,
    ) -> BoxFuture<'a, Result<(), RuntimeError>>;

    /// Asks the container's main process to end, with the image's stop signal (SIGTERM by default).
    fn terminate_container<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), RuntimeError>>;

    /// Kills every process of the container; its exit follows as an event.
    fn kill_container<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), RuntimeError>>;

    /// Kills every process of the container as the kernel does where memory runs out: its exit says so.
    fn kill_for_memory<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), RuntimeError>>;

    /// Forgets a container attempt that has ended, with its log.
    fn remove_container<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), RuntimeError>>;

    /// Runs a command in a running container with streams.
    fn exec<'a>(
        &'a self,
        id: &'a ContainerId,
        command: Vec<String>,
        streams: SessionStreams,
    ) -> BoxFuture<'a, Result<Session, RuntimeError>>;

    /// Runs a command in a running container to its end, killing it after `timeout`.
    fn exec_sync<'a>(
        &'a self,
        id: &'a ContainerId,
        command: Vec<String>,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<ExecOutput, RuntimeError>>;

    /// Returns true if the readiness probes of a pod may run: a hollow pod can be set to fail them all.
    fn is_ready(&self, pod: &PodUid) -> bool {
        let _ = pod;
        true
    }

    /// Connects to the container's own streams (its terminal, when it has one).
    fn attach<'a>(
        &'a self,
        id: &'a ContainerId,
        streams: SessionStreams,
    ) -> BoxFuture<'a, Result<Session, RuntimeError>>;

    /// The addresses on which processes of the pod listen for TCP connections to a port, the most specific first.
    fn listeners<'a>(
        &'a self,
        pod: &'a PodUid,
        port: u16,
    ) -> BoxFuture<'a, Result<Vec<SocketAddr>, RuntimeError>>;

    /// The addresses on which processes of the pod listen, as they bound them: some dozens at most.
    fn every_listener<'a>(
        &'a self,
        pod: &'a PodUid,
        transport: Transport,
    ) -> BoxFuture<'a, Result<Vec<SocketAddr>, RuntimeError>>;

    /// Makes the node's own connections, those of probes and hooks.
    fn dialer(&self) -> Dialer {
        Arc::new(OwnNetwork)
    }

    /// The same of a pod whose network is its own; none where it shares the machine's.
    fn pod_dialer(&self, pod: &PodUid) -> Option<Dialer> {
        let _ = pod;
        None
    }

    /// The paths that the container's log files may have, oldest first: each is renamed to the one before it when the
    /// log rotates. Lines are CRI's: `2026-11-21T03:27:14.123456789Z stdout F text`. None when the runtime keeps no logs.
    fn log_files<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<Vec<PathBuf>, RuntimeError>>;

    /// The directories with all that a container writes on disk outside its volumes, logs included.
    fn container_dirs(&self, pod: &PodUid, id: &ContainerId) -> Vec<PathBuf>;

    /// The usage of each running container of every pod: the whole node in one reading.
    fn usage_of_all(&self) -> BoxFuture<'_, Result<UsageByPod, RuntimeError>>;

    /// The usage of each running container of the pod, by container name.
    fn usage<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<BTreeMap<String, Usage>, RuntimeError>>;
}
