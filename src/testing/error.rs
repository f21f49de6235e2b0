//! The errors of a test's cluster, with their remedies.

use std::time::Duration;

/// A cluster for a test did not start, or cannot fulfil a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No runtime drives the cluster's tasks.
    #[error("a cluster needs a tokio runtime; start it in a #[tokio::test]")]
    NoRuntime,
    /// The time of this runtime cannot be paused.
    #[error(
        "the manual clock needs a single-threaded runtime with paused time; write #[tokio::test(start_paused = true)], \
         without flavor = \"multi_thread\""
    )]
    ManualClock,
    /// The cluster uses the machine's clock, which cannot be advanced.
    #[error(
        "this cluster uses the machine's clock, which cannot be advanced; write #[tokio::test(start_paused = true)], \
         or start the cluster with manual_clock()"
    )]
    MachineClock,
    /// Processes depend on the machine's clock.
    #[error("nodes with processes need the machine's clock; omit process_nodes() or the manual clock")]
    ProcessesOnManualClock,
    /// The program `podium`, which runs the processes of nodes, was not found.
    #[error("{0}")]
    Program(String),
    /// A chosen component does not exist.
    #[error("{0}")]
    Component(String),
    /// The configuration is invalid: the position of the error, and the reason.
    #[error("the cluster's configuration: {0}")]
    Config(String),
    /// A part of the cluster could not be started.
    #[error("the cluster did not start: {0}")]
    Start(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A condition did not become true in time.
    #[error("timed out after {waited:?}: {condition}")]
    Late {
        /// The condition that did not become true.
        condition: String,
        /// The time waited, on the cluster's clock.
        waited: Duration,
    },
    /// A CustomResourceDefinition cannot be served.
    #[error("CustomResourceDefinition {name}: {reason}")]
    Definition {
        /// The name of the definition.
        name: String,
        /// The reason.
        reason: String,
    },
    /// A manifest cannot be read or applied: `FILE:LINE:COLUMN`, and the reason.
    #[error("{0}")]
    Manifest(String),
    /// A node cannot fulfil the request.
    #[error("{0}")]
    Node(String),
    /// A pod cannot fulfil the request.
    #[error("pod {namespace}/{name}: {reason}")]
    Pod {
        /// The pod's namespace.
        namespace: String,
        /// The pod's name.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The cluster does not come to rest, because writes never end.
    #[error("the cluster does not come to rest: after {waited:?} of its time, clients still write {kinds}")]
    Restless {
        /// The time waited, on the cluster's clock.
        waited: Duration,
        /// The kinds that were written last.
        kinds: String,
    },
    /// An option of a client is not valid in an HTTP header.
    #[error("{0:?} is not valid in an HTTP header")]
    Header(String),
}

impl Error {
    /// Returns the error of a part that could not be started.
    pub(super) fn start(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Start(Box::new(source))
    }
}
