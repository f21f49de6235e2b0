//! Settings of a program that embeds a cluster, which neither flags nor the config file can express.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use apiserver::Interceptor;
use base::clock::Clock;
use kubelet::runtime::hollow::ContainerBehavior;

/// Chooses the behavior of the containers of pods on hollow nodes, by pod and container name.
pub type PodBehaviorFn = Arc<dyn Fn(&Pod, &str) -> ContainerBehavior + Send + Sync>;

/// The settings of an embedded cluster.
#[derive(Clone, Default)]
pub struct EmbedOptions {
    /// The cluster's clock; `None` means the machine's.
    pub clock: Option<Clock>,
    /// The transport by which clients reach the API.
    pub door: ApiTransport,
    /// The program of the host processes, for nodes that run processes.
    pub host_program: HostProgram,
    /// Chooses the behavior of hollow pods; `None` means the config file's `hollow` settings.
    pub director: Option<PodBehaviorFn>,
    /// Sees requests before the server does.
    pub interceptor: Option<Arc<dyn Interceptor>>,
}

impl fmt::Debug for EmbedOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedding")
            .field("clock", &self.clock)
            .field("door", &self.door)
            .field("host_program", &self.host_program)
            .finish_non_exhaustive()
    }
}

/// The transport by which clients reach an API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApiTransport {
    /// HTTPS on a socket: every client with the kubeconfig has access.
    #[default]
    Socket,
    /// Pipes in memory: only this process has access.
    Process,
}

/// The program that runs as the host process of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HostProgram {
    /// The running program, which is podium.
    #[default]
    This,
    /// An installed podium at this path.
    At(PathBuf),
    /// There is no such program: nodes are hollow.
    Absent,
}

impl HostProgram {
    /// The path of the program.
    pub(super) fn path(&self) -> io::Result<PathBuf> {
        match self {
            Self::This => std::env::current_exe(),
            Self::At(path) => Ok(path.clone()),
            Self::Absent => {
                Err(io::Error::other("the cluster was started without a program that runs processes"))
            }
        }
    }
}
