//! The parts every actor is made of: shared caches, a keyed work queue, a runner, expectations, events.
//!
//! Caches lag behind the API by a moment; [`Expectations`] keep a controller from repeating writes that its cache
//! does not show yet, and [`LastWrites`] keeps two controllers from overwriting each other without pause.

mod cache;
mod controller;
mod correlator;
mod disruption;
mod expectations;
mod last_writes;
mod outcome;
pub mod preconditions;
mod queue;
mod queue_head;
mod recorder;
mod runner;
mod stats;
#[cfg(test)]
mod test_api;
mod update_expectations;
mod work_loop;
mod worker;

pub use api::{Change, ChangeKind};
pub use cache::{Cache, Caches, Difference, Subscription};
pub use controller::{Controller, Requests, controller_key, controllers_of, key_if};
pub use correlator::EventType;
pub use disruption::{Disruption, disrupt};
pub use expectations::Expectations;
pub use last_writes::LastWrites;
pub use outcome::{ignore_gone, ignore_not_found, optional};
pub use queue::{QueueKey, WorkQueue};
pub use recorder::{Recorder, reference_to};
pub use runner::{ReconcileError, Reconciler};
pub use stats::{ControllerStats, FinishedReconcile, StatsLimits};
pub use update_expectations::UpdateExpectations;
pub use work_loop::{LoopRound, WorkLoop};
