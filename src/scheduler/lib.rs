//! Gives every pod a node, as kube-scheduler would.
//!
//! The rooms, each pure but the last: [`state`] is what is known of the cluster, kept up to date change by change;
//! [`queue`] says which pod is next; [`cycle`] finds it a node by asking the [`plugins`] of a [`profile`] through the
//! [`framework`]; [`core`] holds these together and steps from pod to pod; [`explain`] says why a pod fits nowhere and
//! what would help; `run` feeds the core from the API and carries out what it decides.
//!
//! Architecture Invariant: a cycle does no I/O and reads no clock; one task owns all state.

pub mod config;
pub mod core;
pub mod cycle;
pub mod explain;
pub mod framework;
pub mod message;
#[cfg(test)]
mod oracle;
pub mod plugins;
#[cfg(test)]
mod preemption_scenarios;
pub mod profile;
pub mod queue;
pub mod reason;
mod run;
pub mod state;
#[cfg(test)]
mod test_cluster;
#[cfg(test)]
mod test_objects;

pub use run::{Scheduler, SchedulerConfig};
