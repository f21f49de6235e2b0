//! Gives every pod a node, as kube-scheduler would.
//!
//! The rooms, each pure but the last: [`state`] is what is known of the cluster, kept up to date change by change;
//! [`queue`] says which pod is next; [`cycle`] finds it a node by asking the [`plugins`] of a [`profile`] through the
//! [`framework`]; [`core`] holds these together and steps from pod to pod; [`explain`] says why a pod fits nowhere and
//! what would help; `run` feeds the core from the API and carries out what it decides.
//!
//! Architecture Invariant: a cycle does no I/O and reads no clock; one task owns all state.

pub mod config;
pub(crate) mod core;
pub(crate) mod cycle;
pub(crate) mod explain;
pub(crate) mod framework;
pub(crate) mod message;
#[cfg(test)]
mod oracle;
pub(crate) mod plugins;
#[cfg(test)]
mod preemption_scenarios;
pub(crate) mod profile;
pub(crate) mod queue;
pub(crate) mod reason;
mod run;
pub(crate) mod state;
#[cfg(test)]
mod test_cluster;
#[cfg(test)]
mod test_objects;

pub use run::{Scheduler, SchedulerConfig};
