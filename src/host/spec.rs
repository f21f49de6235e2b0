//! The kubelet's requests, shaped like Kubernetes' CRI: sandboxes and containers, fully resolved.

use std::net::IpAddr;
use std::path::PathBuf;

use crate::seccomp::Seccomp;

/// The search path of containers whose image sets none.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The program that a name in an image stands for, instead of a file in the search path.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Program {
    /// Part of this binary: `podium image-program NAME`.
    Inside(String),
    /// A program of the machine.
    Path(PathBuf),
}

/// The uid of the pod a sandbox belongs to; the sandbox's identity.
pub type PodUid = String;

/// A container attempt's id, unique for ever: `HEX`, shown in the API as `podium://HEX`.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct ContainerId(pub String);

/// The spec of a pod's sandbox, before its first container starts.
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
    /// The pod's address, unique to it; for a pod in the node's network, the node's.
    pub ip: IpAddr,
    /// Its address of the other family.
    #[serde(default)]
    pub second_ip: Option<IpAddr>,
    /// Containers see each other's processes (`shareProcessNamespace`).
    pub share_process_namespace: bool,
    /// The machine's namespaces that the pod uses instead of its own.
    #[serde(default)]
    pub host: HostShares,
    /// The pod's volumes in memory.
    #[serde(default)]
    pub memory_volumes: Vec<MemoryVolume>,
    /// Settings of the kernel in namespaces of its own (`securityContext.sysctls`): names with dots, and values.
    #[serde(default)]
    pub sysctls: Vec<(String, String)>,
    /// Lines of the pod's `/etc/resolv.conf`; none keeps the machine's own.
    pub resolv_conf: Option<String>,
    /// Lines of the pod's `/etc/hosts`; none keeps the machine's own.
    pub hosts: Option<String>,
    /// The limits of all its containers together, if the kernel can enforce them.
    #[serde(default)]
    pub limits: ResourceLimits,
    /// The ids of the pod's own user namespace (`hostUsers: false`); none for a pod with the machine's users.
    #[serde(default)]
    pub users: Option<IdRange>,
}

/// The ids of the machine that the users and groups 0 to 65,535 of a pod's user namespace stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct IdRange {
    /// The id that is 0 in the pod.
    pub first: u32,
}

impl IdRange {
    /// The number of ids in every range, as in Kubernetes.
    pub const COUNT: u32 = 65_536;

    /// Returns the machine's id for an id in the pod; none outside of the range.
    pub fn on_machine(self, id: u32) -> Option<u32> {
        self.first.checked_add(id).filter(|_| id < Self::COUNT)
    }
}

/// The namespaces that a pod shares with the machine (`hostPID`, `hostIPC`, `hostNetwork`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct HostShares {
    /// The pod sees the machine's processes.
    pub pid: bool,
    /// The pod uses the machine's shared memory and semaphores.
    pub ipc: bool,
    /// The pod has the machine's host name, and the network of its node.
    pub network: bool,
}

/// The rights of a container's processes, besides their user.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Security {
    /// Further groups (`supplementalGroups`, `fsGroup`), where permitted.
    pub groups: Vec<u32>,
    /// Ignores the groups that the image's `/etc/group` gives its user (`supplementalGroupsPolicy: Strict`).
    #[serde(default)]
    pub no_image_groups: bool,
    /// Only volumes are writable (`readOnlyRootFilesystem`), if there are namespaces.
    pub read_only_root: bool,
    /// No program gains rights by being executed (`allowPrivilegeEscalation: false`).
    pub no_new_privileges: bool,
    /// The container must not run as root (`runAsNonRoot`).
    pub non_root: bool,
    /// It keeps all of root's capabilities (`privileged`), if there are any.
    #[serde(default)]
    pub privileged: bool,
    /// It sees all of /proc (`procMount: Unmasked`), in a pod with a user namespace of its own.
    #[serde(default)]
    pub unmasked: bool,
    /// Capabilities besides containerd's defaults, by name (`NET_ADMIN`, `ALL`), if there are any.
    #[serde(default)]
    pub add_capabilities: Vec<String>,
    /// Capabilities to drop, by name.
    pub drop_capabilities: Vec<String>,
    /// The filter of its system calls (`seccompProfile`); nothing filters those of a privileged container.
    #[serde(default)]
    pub seccomp: Seccomp,
}

/// The files of an image of the store, shown to a container as a volume.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ImageFiles {
    /// The image's identity, `sha256:HEX`.
    pub image_id: String,
    /// The directories of its layers, the topmost one first; at least one.
    pub layers: Vec<PathBuf>,
}

/// A directory or file of the node, or an image's files, shown to a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Mount {
    /// The path on the machine; empty if the mount shows an image's files.
    pub host_path: PathBuf,
    /// The image whose files the mount shows.
    #[serde(default)]
    pub image: Option<ImageFiles>,
    /// The part of the volume to show; the host looks it up inside the volume, and no link leads out of it.
    #[serde(default)]
    pub sub_path: Option<PathBuf>,
    /// The path in the container; always absolute.
    pub container_path: PathBuf,
    /// The container must not write to the mount.
    pub read_only: bool,
    /// True if mounts inside it must be read-only, too.
    #[serde(default)]
    pub recursive: bool,
}

impl Mount {
    /// The source's path on the machine.
    pub(crate) fn source(&self) -> PathBuf {
        self.sub_path.as_ref().map_or_else(|| self.host_path.clone(), |inside| self.host_path.join(inside))
    }
}

/// A directory in memory that the containers of a pod share (emptyDir of medium Memory), where there are
/// namespaces.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct MemoryVolume {
    /// The volume's name: it lies at `volumes/NAME` below the pod's directory in memory.
    pub name: String,
    /// Its maximum size.
    pub size_bytes: Option<u64>,
    /// Its directory's mode.
    pub mode: u32,
    /// Its directory's group.
    pub group: Option<u32>,
}

/// One attempt at running a container, fully resolved: it contains no references to API objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ContainerSpec {
    /// The pod whose sandbox it runs in.
    pub pod_uid: PodUid,
    /// The container's name in the pod's spec.
    pub name: String,
    /// The number of earlier attempts in this pod (restartCount).
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
    /// CPU request in thousandths of a core: its share when processes compete for CPU time.
    #[serde(default)]
    pub cpu_request_millicores: Option<u64>,
    /// CPU request of its whole pod in thousandths of a core: the pod's share when pods compete for CPU time.
    #[serde(default)]
    pub pod_cpu_request_millicores: Option<u64>,
    /// The kernel's preference for killing the container's processes when the machine's memory runs out, from -1000 to
    /// 1000. The processes keep the host's own value if it is higher.
    #[serde(default)]
    pub oom_score_adj: Option<i32>,
    /// User id to run as, where permitted.
    pub run_as_user: Option<u32>,
    /// Group id to run as, where permitted.
    pub run_as_group: Option<u32>,
    /// Replaces the image's stop signal.
    #[serde(default)]
    pub stop_signal: Option<i32>,
    /// Further rights and restrictions of its processes.
    #[serde(default)]
    pub security: Security,
    /// The path, in the container, of the file whose content becomes the termination message.
    pub termination_message_path: PathBuf,
    /// For an ephemeral container: the target container whose processes, directory and environment it accesses.
    pub target: Option<String>,
}

/// The limits of a running container, or of a whole pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ResourceLimits {
    /// Memory limit in bytes.
    pub memory_bytes: Option<u64>,
    /// CPU limit in thousandths of a core.
    pub cpu_millicores: Option<u64>,
    /// CPU request in thousandths of a core: its share when processes compete for CPU time.
    pub cpu_request_millicores: Option<u64>,
    /// CPU request of the container's whole pod, which changes with the container's.
    #[serde(default)]
    pub pod_cpu_request_millicores: Option<u64>,
}
