//! The kubelet's interface to the operating system: the container runtime, shaped like Kubernetes' CRI.
//!
//! All OS work of a node sits behind [`Runtime`]. `process` implements it with real processes held by the node's host
//! process ([`host`]), of which it is the client; `hollow` without any. The kubelet decides (`plan`), the runtime
//! executes.
//!
//! Architecture Invariant: nothing here knows the API server, restart policies or probes.

mod events;
pub mod hollow;
mod image_service;
mod process;

pub use events::RuntimeEvents;
pub use image_service::ImageService;
pub use process::{HostLife, NodeNetwork, NodeSockets, ProcessConfig, ProcessRuntime};

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use base::dial::{Dialer, LocalDialer, Transport};
use base::session::{Session, SessionStreams};
pub use host::seccomp::{Seccomp, SeccompProfile};
pub use host::{
    ContainerExit, ContainerId, ContainerRecord, ContainerSpec, ExecOutput, HostFaults, HostShares, IdRange,
    ImageFiles, Memory, MemoryVolume, Mount, PodUid, ProcessUser, ResourceLimits, RuntimeError,
    SandboxRecord, SandboxSpec, Security, Usage, UsageByPod,
};
pub(crate) use images::Image;
pub use images::PullSecret;
pub use object::pod::PullProgress;
use object::well_known::annotation;

/// An event that the kubelet should handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeEvent {
    /// A container of this pod ended, or its sandbox did.
    PodChanged(PodUid),
    /// The connection to the node's host was lost and restored: check every pod.
    Relist,
}

/// A request to pull an image.
pub struct ImagePull {
    /// The reference as the container has it.
    pub image: String,
    /// The pull secrets: the content of their `.dockerconfigjson` or `.dockercfg`.
    pub secrets: Vec<PullSecret>,
}

/// The container runtime of one node.
///
/// Every call is idempotent: a repeated call returns as if it had just been executed.
pub trait Runtime: Send + Sync + 'static {
    /// The node's `containerRuntimeVersion`, e.g. `podium://0.1.0` or `hollow://0.1.0`.
    fn version(&self) -> String;

    /// Describes how this runtime isolates containers, for the Node's annotations (key → value).
    fn isolation(&self) -> BTreeMap<String, String>;

    /// Returns true if containers have mounts of their own.
    fn has_namespaces(&self) -> bool {
        self.isolation().get(annotation::PODIUM_NAMESPACES).is_some_and(|kinds| kinds != "none")
    }

    /// The memory file system for content that the kubelet writes for pods; `None` if it has none. A restarted
    /// runtime has a new one: the content of the old one is lost.
    fn memory(&self) -> Option<Arc<Memory>> {
        None
    }

    /// Replaces the faults of the node's clock and disk: they affect the runtime's writes. Never waits.
    fn set_faults(&self, faults: HostFaults) {
        let _ = faults;
    }

    /// Subscribes to events from now on. There is one subscriber: the previous one gets no more events.
    fn events(&self) -> RuntimeEvents;

    /// Succeeds if the runtime works (CRI's `Status`); otherwise fails, or does not answer for a while.
    fn status(&self) -> BoxFuture<'_, Result<(), RuntimeError>>;

    /// Every sandbox and container the node has, running or not.
    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxRecord>, RuntimeError>>;

    /// One pod's sandbox and containers.
    fn inspect<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<Option<SandboxRecord>, RuntimeError>>;

    /// The image of a reference, if the machine has it (CRI's `ImageStatus`).
    fn image_status<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<Image, RuntimeError>>;

    /// Returns true if the image's registry may be queried for it.
    fn can_pull(&self, reference: &str) -> bool {
        let _ = reference;
        false
    }

    /// Pulls an image from its registry (CRI's `PullImage`). An image that is present and still current is not
    /// downloaded again. Dropping the future cancels the pull, unless another caller waits for the same image.
    fn pull_image<'a>(&'a self, pull: &'a ImagePull) -> BoxFuture<'a, Result<Image, RuntimeError>> {
        self.image_status(&pull.image)
    }

    /// The progress of a running pull.
    fn pull_progress(&self, reference: &str) -> Option<PullProgress> {
        let _ = reference;
        None
    }

    /// Returns true if the image was pulled from its registry: the pull policy `Always` asks the registry again.
    fn is_image_pulled(&self, reference: &str) -> bool {
        let _ = reference;
        false
    }

    /// Returns true if the image was loaded or pulled on this node; images of the catalogue are neither.
    fn is_image_loaded(&self, reference: &str) -> bool {
        let _ = reference;
        false
    }

    /// The images that were loaded or pulled on this node, with all their names.
    fn loaded_images(&self) -> Vec<(Vec<String>, Image)> {
        Vec::new()
    }

    /// The files of an image that was loaded or pulled on this node, for a volume.
    fn image_files(&self, reference: &str) -> Result<ImageFiles, RuntimeError> {
        Err(RuntimeError::ImageNotFound(format!("image \"{reference}\" has no files on this node")))
    }

    /// The runtime's images, for clients that list and change them; `None` if it has no images of its own.
    fn image_service(&self) -> Option<ImageService> {
        None
    }

    /// Creates the pod's sandbox (directories, namespaces).
    fn run_sandbox(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<SandboxRecord, RuntimeError>>;

    /// Kills every process of the pod and returns once all are confirmed dead.
    fn stop_sandbox<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<(), RuntimeError>>;

    /// Replaces the content of the pod's `/etc/hosts`, for its running containers too.
    fn write_hosts<'a>(&'a self, pod: &'a PodUid, text: String) -> BoxFuture<'a, Result<(), RuntimeError>>;

    /// Forgets a stopped pod: its records, logs and private directories.
    fn remove_sandbox<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<(), RuntimeError>>;

    /// Starts one attempt of a container in its pod's sandbox.
    fn start_container(&self, spec: ContainerSpec) -> BoxFuture<'_, Result<ContainerRecord, RuntimeError>>;

    /// Changes the limits of a running container.
    fn resize_container<'a>(
        &'a self,
        id: &'a ContainerId,
        limits: ResourceLimits,
    ) -> BoxFuture<'a, Result<(), RuntimeError>>;

    /// Sends the image's stop signal (SIGTERM by default) to the container's main process.
    fn terminate_container<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), RuntimeError>>;

    /// Kills every process of the container; its exit follows as an event.
    fn kill_container<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), RuntimeError>>;

    /// Kills every process of the container as the kernel's OOM killer does; its exit has `oom_killed` set.
    fn kill_for_memory<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), RuntimeError>>;

    /// Removes a container attempt that has ended, with its log.
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

    /// Connects to the container's own streams (its terminal, if it has one).
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

    /// Returns the dialer of the node's own connections, for probes and hooks.
    fn dialer(&self) -> Dialer {
        Arc::new(LocalDialer)
    }

    /// Returns the dialer of connections to a pod with its own network, for probes and hooks; `None` if the pod shares
    /// the machine's network.
    fn pod_dialer(&self, pod: &PodUid) -> Option<Dialer> {
        let _ = pod;
        None
    }

    /// The possible paths of the container's log files, oldest first: each is renamed to the one before it when the log
    /// rotates. Lines are CRI's: `2026-11-21T03:27:14.123456789Z stdout F text`. Empty if the runtime has no logs.
    fn log_files<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<Vec<PathBuf>, RuntimeError>>;

    /// The directories that hold everything a container writes on disk outside its volumes, logs included.
    fn container_dirs(&self, pod: &PodUid, id: &ContainerId) -> Vec<PathBuf>;

    /// The usage of each running container of every pod: the whole node in one reading.
    fn usage_of_all(&self) -> BoxFuture<'_, Result<UsageByPod, RuntimeError>>;

    /// The usage of each running container of the pod, by container name.
    fn usage<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<BTreeMap<String, Usage>, RuntimeError>>;
}

/// The sandbox of the pod `n/p` with the uid `u`.
#[cfg(test)]
pub(crate) fn example_sandbox() -> SandboxSpec {
    SandboxSpec {
        pod_uid: "u".into(),
        namespace: "n".into(),
        name: "p".into(),
        hostname: "p".into(),
        ip: [127, 0, 0, 2].into(),
        second_ip: None,
        share_process_namespace: false,
        host: HostShares::default(),
        memory_volumes: Vec::new(),
        sysctls: Vec::new(),
        resolv_conf: None,
        hosts: None,
        limits: ResourceLimits::default(),
        users: None,
    }
}
