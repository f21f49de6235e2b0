//! What a kubelet asks of the operating system: the container runtime, shaped like Kubernetes' CRI.
//!
//! All OS work of a node sits behind [`Runtime`]. `process` implements it with real processes held by the
//! node's host process, `hollow` without any. The kubelet decides (`plan`), the runtime does.
//!
//! Architecture Invariant: nothing here knows the API server, restart policies or probes.

#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod hollow;
#[cfg(target_os = "linux")]
mod host;
mod image_users;
mod kept;
mod memory;
mod process;
mod protocol;
pub mod running;

#[cfg(target_os = "linux")]
pub use host::node_host_main;
pub use image_users::containers_with_root;
pub use memory::Memory;
pub use process::{HostLife, ProcessConfig, ProcessRuntime};

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;

use crate::api::session::{Session, SessionStreams};

/// The uid of the pod a sandbox belongs to; the sandbox's identity.
pub type PodUid = String;

/// A container attempt's id, unique for ever: `HEX`, shown in the API as `podium://HEX`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct ContainerId(pub String);

/// What a pod's sandbox needs before its first container starts.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SandboxSpec {
    /// The pod's uid.
    pub pod_uid: PodUid,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The host name its processes see.
    pub hostname: String,
    /// The pod's address: a loopback address nobody else has.
    pub ip: IpAddr,
    /// Containers see each other's processes (`shareProcessNamespace`).
    pub share_process_namespace: bool,
    /// Which of the machine's namespaces it uses instead of its own.
    #[serde(default)]
    pub host: HostShares,
    /// Its volumes in memory.
    #[serde(default)]
    pub memory_volumes: Vec<MemoryVolume>,
    /// Lines of the pod's `/etc/resolv.conf`; none keeps the machine's own.
    pub resolv_conf: Option<String>,
    /// Lines of the pod's `/etc/hosts`; none keeps the machine's own.
    pub hosts: Option<String>,
}

/// What a pod shares with the machine (`hostPID`, `hostIPC`, `hostNetwork`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct HostShares {
    /// It sees the machine's processes.
    pub pid: bool,
    /// It uses the machine's shared memory and semaphores.
    pub ipc: bool,
    /// It has the machine's host name. The network is shared anyway.
    pub network: bool,
}

/// What a container's processes may do, beside the user they run as.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Security {
    /// Further groups (`supplementalGroups`, `fsGroup`), where permitted.
    pub groups: Vec<u32>,
    /// Not those that the image's `/etc/group` gives its user (`supplementalGroupsPolicy: Strict`).
    #[serde(default)]
    pub no_image_groups: bool,
    /// Nothing but volumes may be written (`readOnlyRootFilesystem`), where there are namespaces.
    pub read_only_root: bool,
    /// No program gains rights by being executed (`allowPrivilegeEscalation: false`).
    pub no_new_privileges: bool,
    /// Root must not be whom it runs as (`runAsNonRoot`).
    pub non_root: bool,
    /// It keeps all of root's capabilities (`privileged`), where there are any.
    #[serde(default)]
    pub privileged: bool,
    /// Capabilities beside containerd's defaults, by name (`NET_ADMIN`, `ALL`), where there are any.
    #[serde(default)]
    pub add_capabilities: Vec<String>,
    /// Capabilities taken away, by name.
    pub drop_capabilities: Vec<String>,
}

/// A directory or file of the node shown to a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Mount {
    /// The path on the machine.
    pub host_path: PathBuf,
    /// What of it is shown, looked up in it by the host: links lead nowhere else.
    #[serde(default)]
    pub sub_path: Option<PathBuf>,
    /// The path the container should see; always absolute.
    pub container_path: PathBuf,
    /// The container must not write it.
    pub read_only: bool,
    /// Nor what is mounted inside it.
    #[serde(default)]
    pub recursive: bool,
}

impl Mount {
    /// The path on the machine of what is shown.
    pub fn source(&self) -> PathBuf {
        self.sub_path.as_ref().map_or_else(|| self.host_path.clone(), |inside| self.host_path.join(inside))
    }
}

/// A directory in memory that the containers of a pod share (emptyDir of medium Memory), where there are
/// namespaces.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct MemoryVolume {
    /// The volume's name: it lies at `volumes/NAME` below the pod's directory in memory.
    pub name: String,
    /// It holds no more than this.
    pub size_bytes: Option<u64>,
    /// Its directory's mode.
    pub mode: u32,
    /// Its directory's group.
    pub group: Option<u32>,
}

/// One attempt at running a container, fully resolved: no reference to the API is left in it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ContainerSpec {
    /// The pod whose sandbox it runs in.
    pub pod_uid: PodUid,
    /// The container's name in the pod's spec.
    pub name: String,
    /// How many attempts came before in this pod (restartCount).
    pub attempt: u32,
    /// The image reference as the user wrote it.
    pub image: String,
    /// `command` of the spec after `$(VAR)` expansion; replaces the image's entrypoint when not empty.
    pub command: Vec<String>,
    /// `args` of the spec after expansion; replaces the image's cmd when not empty.
    pub args: Vec<String>,
    /// The environment, in order; later entries win. The image's own comes first.
    pub env: Vec<(String, String)>,
    /// Replaces the image's working directory.
    pub working_dir: Option<PathBuf>,
    /// Volumes at their mount paths.
    pub mounts: Vec<Mount>,
    /// The pod's volumes in memory that only this container writes: they count as its memory.
    #[serde(default)]
    pub memory_volumes: Vec<String>,
    /// Keep standard input open for attach.
    pub stdin: bool,
    /// Close standard input after the first attached client leaves.
    pub stdin_once: bool,
    /// The main process has a terminal.
    pub tty: bool,
    /// Memory limit in bytes.
    pub memory_limit_bytes: Option<u64>,
    /// CPU limit in thousandths of a core.
    pub cpu_limit_millicores: Option<u64>,
    /// CPU request in thousandths of a core: its share when all want more than there is.
    #[serde(default)]
    pub cpu_request_millicores: Option<u64>,
    /// User id to run as, where permitted.
    pub run_as_user: Option<u32>,
    /// Group id to run as, where permitted.
    pub run_as_group: Option<u32>,
    /// Replaces the image's stop signal.
    #[serde(default)]
    pub stop_signal: Option<i32>,
    /// What else its processes may and may not do.
    #[serde(default)]
    pub security: Security,
    /// The path, as the container sees it, of the file whose content becomes the termination message.
    pub termination_message_path: PathBuf,
    /// For an ephemeral container: the container whose processes, directory and environment it looks at.
    pub target: Option<String>,
}

/// What a running container is held to from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ResourceLimits {
    /// Memory limit in bytes.
    pub memory_bytes: Option<u64>,
    /// CPU limit in thousandths of a core.
    pub cpu_millicores: Option<u64>,
    /// CPU request in thousandths of a core: its share when all want more than there is.
    pub cpu_request_millicores: Option<u64>,
}

/// Why a container ended.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ContainerExit {
    /// The exit code; 128 + signal when a signal ended it.
    pub exit_code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// It was killed for using more memory than its limit.
    pub oom_killed: bool,
    /// When it ended.
    pub finished_at: Timestamp,
    /// What it left in its termination message file (at most 4096 bytes, lossy UTF-8).
    pub message: Option<String>,
}

/// What the runtime knows of one container attempt.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ContainerRecord {
    /// The attempt's id.
    pub id: ContainerId,
    /// The container's name in the pod's spec.
    pub name: String,
    /// The attempt's number (restartCount when it ran).
    pub attempt: u32,
    /// The image reference as given.
    pub image: String,
    /// The digest-like identity of what the image resolved to.
    pub image_id: String,
    /// The main process on the machine, while it runs.
    pub pid: Option<u32>,
    /// When its main process was started.
    pub started_at: Timestamp,
    /// Set once it has ended and every process of it is gone.
    pub exit: Option<ContainerExit>,
}

/// What the runtime knows of one pod.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SandboxRecord {
    /// What it was made from.
    pub spec: SandboxSpec,
    /// When it was made.
    pub created_at: Timestamp,
    /// The sandbox itself is alive; a dead one must be made anew with all init containers.
    pub ready: bool,
    /// Every attempt that has not been removed, oldest first.
    pub containers: Vec<ContainerRecord>,
}

/// When a sandbox is made anew: after all that was started in the one before, though the clock was set back meanwhile.
fn after_all<'a>(now: Timestamp, before: impl IntoIterator<Item = &'a ContainerRecord>) -> Timestamp {
    let last = before.into_iter().map(|container| container.started_at).max();
    let after = last.map(|last| crate::base::clock::saturating_after(last, Duration::from_nanos(1)));
    after.map_or(now, |after| after.max(now))
}

impl SandboxRecord {
    /// Something of the pod lives: the sandbox, or a process that is left of it.
    pub fn is_alive(&self) -> bool {
        self.ready || self.containers.iter().any(|container| container.exit.is_none())
    }
}

/// Something happened that the kubelet should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeEvent {
    /// A container of this pod ended, or its sandbox did.
    PodChanged(PodUid),
    /// The connection to the node's host was lost and found again: look at every pod.
    Relist,
}

/// What a container or pod uses now.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Usage {
    /// CPU time used since its start.
    pub cpu_time: Duration,
    /// Resident memory, in bytes.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub processes: u32,
}

/// What each running container of each pod uses, by name.
pub type UsageByPod = BTreeMap<PodUid, BTreeMap<String, Usage>>;

/// What came out of a command run to its end inside a container.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ExecOutput {
    /// The exit code.
    pub exit_code: i32,
    /// Standard output and error together, cut at 10 KiB.
    pub output: Vec<u8>,
}

/// Why the runtime could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
pub enum RuntimeError {
    /// The image is in no catalogue (reason `ErrImagePull`); the text names the fix.
    #[error("{0}")]
    ImageNotFound(String),
    /// The reference cannot be read as an image name (reason `InvalidImageName`).
    #[error("{0}")]
    InvalidImageName(String),
    /// The container cannot be made here at all (reason `CreateContainerError`); the text says why.
    #[error("{0}")]
    CreateFailed(String),
    /// The container cannot be started as asked: no such program, not executable, a directory
    /// (reason `StartError`, exit code 128; the text is the message).
    #[error("{0}")]
    StartFailed(String),
    /// What the container asks for cannot be (reason `CreateContainerConfigError`).
    #[error("{0}")]
    InvalidConfig(String),
    /// The container or sandbox is not known.
    #[error("{0} not found")]
    NotFound(String),
    /// A command inside the container took longer than it may.
    #[error("command timed out after {0:?}")]
    Timeout(Duration),
    /// The node's host process cannot be reached or answered nonsense.
    #[error("node host: {0}")]
    Host(String),
    /// The operating system refused.
    #[error("{0}")]
    Os(String),
}

/// What an image reference resolved to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PulledImage {
    /// The identity shown as `imageID`.
    pub image_id: String,
    /// What it takes on the machine, in bytes; shown in the `Pulled` event.
    pub size_bytes: u64,
}

/// The container runtime of one node.
///
/// Every call is safe to repeat: asking for what is already so answers as if it had just been done.
pub trait Runtime: Send + Sync + 'static {
    /// The node's `containerRuntimeVersion`, e.g. `podium://0.1.0` or `hollow://0.1.0`.
    fn version(&self) -> String;

    /// Facts about how containers are kept apart here, for the Node's annotations (key → value).
    fn isolation(&self) -> BTreeMap<String, String>;

    /// Where what the kubelet writes for pods may lie in memory; none where there is no such place. Another one
    /// once the runtime had to be started anew: what lay in the one before is gone.
    fn memory(&self) -> Option<Arc<Memory>> {
        None
    }

    /// The next events; ends when the runtime is gone. Only one receiver exists: the first caller's.
    fn events(&self) -> tokio::sync::mpsc::Receiver<RuntimeEvent>;

    /// Answers while the runtime does (CRI's `Status`); an error, or nothing for a while, where it does not.
    fn status(&self) -> BoxFuture<'_, Result<(), RuntimeError>>;

    /// Every sandbox and container the node has, running or not.
    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxRecord>, RuntimeError>>;

    /// One pod's sandbox and containers.
    fn inspect<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<Option<SandboxRecord>, RuntimeError>>;

    /// Whether the image is known, and what it resolves to.
    fn pull_image<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<PulledImage, RuntimeError>>;

    /// Whether the image lies on this node without having been pulled: somebody loaded it.
    fn has_image(&self, reference: &str) -> bool {
        let _ = reference;
        false
    }

    /// The images that were loaded on this node, with all their names.
    fn loaded_images(&self) -> Vec<(Vec<String>, PulledImage)> {
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

    /// Connects to the container's own streams (its terminal, when it has one).
    fn attach<'a>(
        &'a self,
        id: &'a ContainerId,
        streams: SessionStreams,
    ) -> BoxFuture<'a, Result<Session, RuntimeError>>;

    /// Where processes of the pod listen for TCP connections to a port, the most specific address first.
    fn listeners<'a>(
        &'a self,
        pod: &'a PodUid,
        port: u16,
    ) -> BoxFuture<'a, Result<Vec<SocketAddr>, RuntimeError>>;

    /// The container's log files, oldest first. Lines are CRI's:
    /// `2026-11-21T03:27:14.123456789Z stdout F text`. None when the runtime keeps no logs.
    fn log_files<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<Vec<PathBuf>, RuntimeError>>;

    /// The directories with all that a container writes on disk outside its volumes, logs included.
    fn container_dirs(&self, pod: &PodUid, id: &ContainerId) -> Vec<PathBuf>;

    /// What each running container of every pod uses: the whole node in one look.
    fn usage_of_all(&self) -> BoxFuture<'_, Result<UsageByPod, RuntimeError>>;

    /// What each running container of the pod uses, by container name.
    fn usage<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<BTreeMap<String, Usage>, RuntimeError>>;
}
