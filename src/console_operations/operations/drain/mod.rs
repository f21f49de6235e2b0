//! The drain of nodes: the plan for each pod, and its execution; the screen only shows them (CON-6).
//!
//! [`budget`] and [`mod@plan`] predict the outcome for each pod, and [`node_drain`] decides the next step during the
//! drain; all three are pure. [`driver`] executes the drain. A drain never deletes a pod that the plan refuses, and
//! never forces; it reports the pods that remain. [`remove`] uses the plan to warn before a node is removed.

pub(crate) mod budget;
pub mod driver;
pub(crate) mod node_drain;
pub mod plan;
pub mod remove;

pub use budget::{BudgetDecision, BudgetTracker};
pub use driver::Progress;
pub use node_drain::{EvictionState, NodeDrain};
pub use plan::{Options, PodDeleteStatus, Row, plan};
