//! Settings of a program that embeds a cluster, which neither flags nor the config file can express.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use api::http::Interceptor;
use base::clock::Clock;
use kubelet::runtime::hollow::ContainerBehavior;

/// Chooses the behavior of the containers of pods on hollow nodes, by pod and container name.
pub type PodBehaviorFn = Arc<dyn Fn(&Pod, &str) -> ContainerBehavior + Send + Sync>;

/// The settings of an embedded cluster.
#[derive(Clone, Default)]
pub struct EmbedOptions {
    /// Its clock; `None` means the machine's.
    pub clock: Option<Clock>,
    /// Access to its API.
    pub door: ApiTransport,
    /// The program of the hosts of nodes with processes.
    pub host_program: HostProgram,
    /// Chooses the behavior of hollow pods; `None` means that the config file does.
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

/// Access to an API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApiTransport {
    /// Every client on the machine with the kubeconfig.
    #[default]
    Socket,
    /// This process alone.
    Process,
}

/// The program that holds a node's containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HostProgram {
    /// This program is podium.
    #[default]
    This,
    /// A podium that is installed.
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
