//! What becomes of a hollow container, where a test or a simulation wants to say.

use std::sync::Arc;
use std::time::Duration;

use crate::runtime::{ContainerSpec, SandboxSpec};

/// What becomes of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// As the runtime is configured.
    AsConfigured,
    /// The same, but it ends even where others run for ever: an init container, for which the others wait.
    Finishes,
    /// It runs until it is asked to end.
    Runs,
    /// The same, but readiness probes of its pod fail.
    RunsUnready,
    /// It ends by itself.
    Ends {
        /// After running so long.
        after: Duration,
        /// With this.
        exit_code: i32,
    },
    /// It cannot be started.
    StartFails,
}

/// Who says what becomes of each container that is started in a sandbox.
pub type Director = Arc<dyn Fn(&SandboxSpec, &ContainerSpec) -> Course + Send + Sync>;
