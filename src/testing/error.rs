//! The errors of a test's cluster, with their remedies.

use std::time::Duration;

/// A cluster for a test did not start, or cannot fulfil a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No runtime drives the cluster's tasks.
    #[error("a cluster lives in a tokio runtime: start it in a #[tokio::test]")]
    NoRuntime,
    /// Time of this runtime cannot stand still.
    #[error(
        "the manual clock needs a runtime of one thread, whose time can stand still: write #[tokio::test(start_paused = \
         true)], without flavor = \"multi_thread\""
    )]
    ManualClock,
    /// Time goes by itself.
    #[error(
        "this cluster goes by the machine's clock, which nobody can move: write #[tokio::test(start_paused = true)], or \
         start it with manual_clock()"
    )]
    MachineClock,
    /// Processes live by the machine's clock.
    #[error("nodes with processes go by the machine's clock: leave out process_nodes(), or the manual clock")]
    ProcessesOnManualClock,
    /// There is no podium whose processes nodes could be.
    #[error("{0}")]
    Program(String),
    /// Something that was chosen is not there.
    #[error("{0}")]
    Component(String),
    /// The configuration cannot be used: where in it, and why.
    #[error("the cluster's configuration: {0}")]
    Config(String),
    /// A part of the cluster could not be started.
    #[error("the cluster did not start: {0}")]
    Start(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It was waited for in vain.
    #[error("waited {waited:?} in vain: {what}")]
    Late {
        /// The condition that did not become true.
        what: String,
        /// On the cluster's clock.
        waited: Duration,
    },
    /// A CustomResourceDefinition cannot be served.
    #[error("CustomResourceDefinition {name}: {reason}")]
    Definition {
        /// The name of the definition.
        name: String,
        /// Why not.
        reason: String,
    },
    /// Manifests cannot be read or applied: FILE:LINE:COLUMN, and why.
    #[error("{0}")]
    Manifest(String),
    /// A node cannot fulfil the request.
    #[error("{0}")]
    Node(String),
    /// A pod cannot fulfil the request.
    #[error("pod {namespace}/{name}: {reason}")]
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// Writes never end.
    #[error("the cluster never comes to rest: after {waited:?} of its time somebody still writes {kinds}")]
    Restless {
        /// On the cluster's clock.
        waited: Duration,
        /// The kinds that were written last.
        kinds: String,
    },
    /// A client's options cannot be sent.
    #[error("{0:?} cannot be sent as a header")]
    Header(String),
}

impl Error {
    /// A part that could not be started.
    pub(super) fn start(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Start(Box::new(source))
    }
}
