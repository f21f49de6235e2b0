//! The parts every actor is made of: shared caches, a keyed work queue, a runner, expectations, events.
//!
//! Caches lag behind the API by a moment; [`Expectations`] keep a controller from repeating writes that its cache
//! does not show yet, and [`LastSaid`] keeps two controllers from overwriting each other without pause.

mod cache;
mod controller;
mod correlator;
mod disrupt;
mod expectations;
mod fault;
mod figures;
mod last_said;
mod outcome;
mod queue;
mod queue_look;
mod recorder;
mod runner;
mod update_expectations;
mod work_loop;
mod worker;

pub use api::{Change, ChangeKind};
pub use cache::{Cache, Caches, Difference, Subscription};
pub use controller::{Controller, Requests, controller_key, controllers_of};
pub use correlator::EventType;
pub use disrupt::{Disruption, disrupt};
pub use expectations::Expectations;
pub use fault::{FaultLives, FaultState};
pub use figures::{Ended, Figures, Room};
pub use last_said::LastSaid;
pub use outcome::{found, ignore_gone, ignore_not_found};
pub use queue::{QueueKey, WorkQueue};
pub use recorder::{Recorder, reference_to};
pub use runner::{ReconcileError, Reconciler};
pub use update_expectations::UpdateExpectations;
pub use work_loop::{Round, WorkLoop};
