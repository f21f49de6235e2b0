//! Gives every pod a node, as kube-scheduler would.
//!
//! The pieces, each pure: [`snapshot`] holds nodes with their totals, kept up to date change by change;
//! [`queue`] says which pod is next; [`cycle`] finds it a node by asking the [`plugins`] of a [`profile`]
//! through the [`framework`]; [`held`] has those that are decided and not bound yet; [`verdict`] keeps what they said of a pod that fits nowhere.
//!
//! Architecture Invariant: a cycle does no I/O and reads no clock; one task owns all state.

pub mod advice;
mod advice_volumes;
mod bind;
pub mod budgets;
pub mod carried;
pub mod config;
pub mod core;
pub mod counts;
pub mod cycle;
pub mod default_spread;
pub mod filters;
pub mod framework;
pub mod group;
pub mod held;
pub mod images;
pub mod message;
pub mod node_info;
pub mod nominated;
#[cfg(test)]
mod oracle;
pub mod plugins;
pub mod pod_affinity;
pub mod pod_info;
mod preempt;
#[cfg(test)]
mod preemption_scenarios;
pub mod profile;
pub mod queue;
pub mod reason;
pub mod remedy;
mod report;
pub mod requests;
mod run;
pub mod scoring;
pub mod snapshot;
pub mod spread;
pub mod storage;
pub mod tally;
#[cfg(test)]
mod test_cluster;
#[cfg(test)]
mod test_objects;
pub mod topology;
pub mod verdict;
mod verdict_shown;

pub use run::{Scheduler, SchedulerConfig};
