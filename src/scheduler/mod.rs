//! Gives every pod a node, as kube-scheduler would.
//!
//! The pieces, each pure: [`snapshot`] holds nodes with their totals, kept up to date change by change;
//! [`queue`] says which pod is next; [`cycle`] finds it a node by asking the [`plugins`] of a [`profile`]
//! through the [`framework`]; [`verdict`] keeps what they said of a pod that fits nowhere.
//!
//! Architecture Invariant: a cycle does no I/O and reads no clock; one task owns all state.

pub mod core;
pub mod cycle;
pub mod framework;
pub mod message;
pub mod node_info;
#[cfg(test)]
mod oracle;
pub mod plugins;
pub mod pod_info;
pub mod ports;
pub mod profile;
pub mod queue;
pub mod reason;
mod report;
pub mod requests;
mod run;
pub mod snapshot;
pub mod spread;
#[cfg(test)]
mod test_objects;
pub mod verdict;

pub use run::{Scheduler, SchedulerConfig};
