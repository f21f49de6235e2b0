//! Draining nodes: what would happen, and doing it with every pod's fate in sight (CON-6).
//!
//! [`budget`] and [`mod@plan`] say what would become of each pod, [`machine`] decides what to do next while it
//! happens; all three are pure, and so is [`replacement`]. [`driver`] carries it out. A drain never deletes a pod that the plan
//! refuses, and never forces: what is left is said.

pub mod budget;
pub mod driver;
pub mod machine;
pub mod options;
pub mod plan;
pub mod replacement;

pub use budget::{Ledger, Ruling};
pub use machine::{Fate, Machine};
pub use plan::{Options, Row, Verdict, plan};
