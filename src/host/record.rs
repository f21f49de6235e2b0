//! Records of sandboxes and containers, and the errors of the runtime.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::{ContainerId, PodUid, SandboxSpec};

/// The end of a container: its exit code, signal and time.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ContainerExit {
    /// The exit code; 128 + signal when a signal ended it.
    pub exit_code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// It was killed for using more memory than its limit.
    pub oom_killed: bool,
    /// The time of its end.
    pub finished_at: Timestamp,
    /// The content of its termination message file (its last 4096 bytes at most, lossy UTF-8).
    pub message: Option<String>,
}

/// The user of a container's first process, at its start.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ProcessUser {
    /// The user id.
    pub uid: u32,
    /// The primary group id.
    pub gid: u32,
    /// The supplementary group ids.
    pub groups: Vec<u32>,
}

/// The runtime's record of one container attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ContainerRecord {
    /// The attempt's id.
    pub id: ContainerId,
    /// The container's name in the pod's spec.
    pub name: String,
    /// The attempt's number (restartCount when it ran).
    pub attempt: u32,
    /// The image reference of the spec.
    pub image: String,
    /// The digest-like identity of the resolved image.
    pub image_id: String,
    /// The main process on the machine, while it runs.
    pub pid: Option<u32>,
    /// The user of its first process; `None` for a container without processes.
    #[serde(default)]
    pub user: Option<ProcessUser>,
    /// The start time of its main process.
    pub started_at: Timestamp,
    /// Set once the container has ended and all its processes have exited.
    pub exit: Option<ContainerExit>,
}

/// The runtime's record of one pod.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SandboxRecord {
    /// The spec it was created from.
    pub spec: SandboxSpec,
    /// Its creation time.
    pub created_at: Timestamp,
    /// The sandbox itself is alive. A dead sandbox must be recreated, and all init containers must run again.
    pub ready: bool,
    /// Every attempt that has not been removed, oldest first.
    pub containers: Vec<ContainerRecord>,
}

/// Returns the creation time of a recreated sandbox: later than every container start in the previous sandbox, even if
/// the clock was set back meanwhile.
pub fn after_all<'a>(now: Timestamp, before: impl IntoIterator<Item = &'a ContainerRecord>) -> Timestamp {
    let last = before.into_iter().map(|container| container.started_at).max();
    let after = last.map(|last| base::clock::saturating_after(last, Duration::from_nanos(1)));
    after.map_or(now, |after| after.max(now))
}

impl SandboxRecord {
    /// Returns true if the sandbox or any process of the pod is alive.
    pub fn is_alive(&self) -> bool {
        self.ready || self.containers.iter().any(|container| container.exit.is_none())
    }
}

/// The current usage of a container or pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Usage {
    /// CPU time used since its start.
    pub cpu_time: Duration,
    /// Resident memory, in bytes.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub processes: u32,
}

/// The usage of each running container of each pod, by name.
pub type UsageByPod = BTreeMap<PodUid, BTreeMap<String, Usage>>;

/// The result of a command run to its end inside a container.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ExecOutput {
    /// The exit code.
    pub exit_code: i32,
    /// Standard output and error together, cut at 10 KiB.
    pub output: Vec<u8>,
}

/// The reason why the runtime refused or failed a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
pub enum RuntimeError {
    /// The image is in no catalogue (reason `ErrImagePull`); the text names the fix.
    #[error("{0}")]
    ImageNotFound(String),
    /// The image could not be pulled (reason `ErrImagePull`).
    #[error("{0}")]
    PullFailed(String),
    /// The reference cannot be read as an image name (reason `InvalidImageName`).
    #[error("{0}")]
    InvalidImageName(String),
    /// The container cannot be created here at all (reason `CreateContainerError`); the text gives the reason.
    #[error("{0}")]
    CreateFailed(String),
    /// The container's program cannot be started: it does not exist, is not executable, or is a directory (reason
    /// `StartError`, exit code 128; the text is the message).
    #[error("{0}")]
    StartFailed(String),
    /// The container's configuration is not possible (reason `CreateContainerConfigError`).
    #[error("{0}")]
    InvalidConfig(String),
    /// The container or sandbox does not exist.
    #[error("{0} not found")]
    NotFound(String),
    /// A command inside the container exceeded its timeout.
    #[error("command timed out after {0:?}")]
    Timeout(Duration),
    /// The node's host process cannot be reached or sent an invalid response.
    #[error("node host: {0}")]
    Host(String),
    /// The node's host process exists but does not respond.
    #[error("node host: {0}")]
    HostSilent(String),
    /// The operating system refused.
    #[error("{0}")]
    Os(String),
}
