//! The rollout of a Deployment: where it is, what holds it up, where it could go back to (CON-5).
//!
//! All pure: [`view`] reads a Deployment with its ReplicaSets and Pods, [`actions`] says what an undo, a
//! pause or a restart would change. Carrying that out is the console's, as with every change.

pub mod actions;
pub mod cause;
pub mod history;
pub mod limits;
pub mod view;

pub use history::{Revision, revisions, template_diff};
pub use limits::Limits;
pub use view::{Progress, RolloutView, Side};
