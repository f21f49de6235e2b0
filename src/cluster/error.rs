//! The errors for which a cluster could not be started.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::data_dir::DataDirError;
use api::ApiError;
use apimachinery::certificates::TlsError;
use scheduler::config::ConfigError as SchedulerConfigError;
use store::StoreError;

/// A cluster could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The state cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The API cannot listen.
    #[error(
        "the API cannot listen on {address}: {source}; choose another address with --listen (port 0 = any free port)"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error.
        source: std::io::Error,
    },
    /// Listening beyond loopback was not permitted.
    #[error("{0} can be reached from other machines; use --expose to allow this")]
    Exposed(SocketAddr),
    /// The cluster cannot be added to the user's kubeconfig.
    #[error("cannot add the cluster to {}: {reason}; choose another file with --kubeconfig", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Certificates cannot be created or used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The key of service account tokens cannot be used.
    #[error("{0}; delete sa.key in the data directory, and Podium creates a new one")]
    TokenKey(String),
    /// The pods' own network cannot be created.
    #[error(
        "cannot create the pods' network: {0}; set \"network: {{mode: loopback}}\" in the config file to share the \
         machine's network"
    )]
    Network(String),
    /// The requested network differs from that of the data directory.
    #[error(
        "the data directory was created with the network \"{before}\", whose addresses services and pods have; the \
         configuration requests \"{requested}\"; undo this change, or choose another data directory with --data-dir"
    )]
    NetworkChanged {
        /// The network at its creation.
        before: String,
        /// The network in the config file.
        requested: String,
    },
    /// The API refused one of the initial objects.
    #[error("cannot set up the cluster: {0}")]
    Api(#[from] ApiError),
    /// The config file's `scheduler` cannot be used.
    #[error("the config file's scheduler: {0}")]
    Scheduler(#[from] SchedulerConfigError),
    /// The audit log cannot be written, or its policy not be read.
    #[error("the audit log: {subject}: {reason}")]
    Audit {
        /// The subject, mostly a file.
        subject: String,
        /// The reason.
        reason: String,
    },
    /// A file of the image catalogue cannot be used.
    #[error("{reason}")]
    Image {
        /// The file, the position in it, and the defect.
        reason: String,
    },
    /// A node's kubelet could not be started.
    #[error("node {node}: {reason}")]
    Node {
        /// The node.
        node: String,
        /// The reason.
        reason: String,
    },
}

impl From<fabric::FabricError> for StartError {
    fn from(error: fabric::FabricError) -> Self {
        Self::Network(error.to_string())
    }
}
