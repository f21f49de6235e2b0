//! What a program decides that has a cluster inside, and that neither flag nor file can say.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use api::http::Interceptor;
use base::clock::Clock;
use kubelet::runtime::hollow::Course;

/// Who says what becomes of the containers of pods on hollow nodes: the pod, and the container's name.
pub(crate) type PodDirector = Arc<dyn Fn(&Pod, &str) -> Course + Send + Sync>;

/// How a cluster is embedded.
#[derive(Clone, Default)]
pub(crate) struct Embedding {
    /// What time it is there; none = what the machine says.
    pub(crate) clock: Option<Clock>,
    /// Who reaches its API.
    pub(crate) door: Door,
    /// What the hosts of nodes with processes are.
    pub(crate) host_program: HostProgram,
    /// What becomes of hollow pods; none = as the config file says.
    pub(crate) director: Option<PodDirector>,
    /// Who sees requests before the server does.
    pub(crate) interceptor: Option<Arc<dyn Interceptor>>,
}

impl fmt::Debug for Embedding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedding")
            .field("clock", &self.clock)
            .field("door", &self.door)
            .field("host_program", &self.host_program)
            .finish_non_exhaustive()
    }
}

/// Who reaches an API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Door {
    /// Everybody on the machine who has the kubeconfig.
    #[default]
    Socket,
    /// This process alone.
    Process,
}

/// The program that holds a node's containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum HostProgram {
    /// This one is podium.
    #[default]
    This,
    /// A podium that is installed.
    At(PathBuf),
    /// There is none: nodes are hollow.
    Absent,
}

impl HostProgram {
    /// Where it is.
    pub(super) fn path(&self) -> io::Result<PathBuf> {
        match self {
            Self::This => std::env::current_exe(),
            Self::At(path) => Ok(path.clone()),
            Self::Absent => Err(io::Error::other("this cluster was started without a program for processes")),
        }
    }
}
