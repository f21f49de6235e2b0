//! What goes wrong with a test's cluster, and what to do about it.

use std::time::Duration;

/// Why a cluster for a test did not start, or cannot do what was asked of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody drives the cluster's tasks.
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
        /// What did not happen.
        what: String,
        /// On the cluster's clock.
        waited: Duration,
    },
    /// A CustomResourceDefinition cannot be served.
    #[error("CustomResourceDefinition {name}: {reason}")]
    Definition {
        /// Which.
        name: String,
        /// Why not.
        reason: String,
    },
    /// Manifests cannot be read or applied: FILE:LINE:COLUMN, and why.
    #[error("{0}")]
    Manifest(String),
    /// A node cannot do what was asked.
    #[error("{0}")]
    Node(String),
    /// A pod cannot do what was asked.
    #[error("pod {namespace}/{name}: {reason}")]
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// Somebody writes for ever.
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
