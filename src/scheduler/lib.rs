//! The scheduler: places every pod on a node, as kube-scheduler does.
//!
//! The modules, each pure but the last: [`state`] is the known state of the cluster, updated change by change;
//! [`queue`] orders the pods; [`cycle`] finds a node by running the [`plugins`] of a [`profile`] through the
//! [`framework`]; [`core`] connects these and decides one pod after another; [`explain`] determines why a pod fits on
//! no node and what would help; `run` feeds the core from the API and executes its decisions.
//!
//! Architecture Invariant: a cycle does no I/O and reads no clock; one task owns all state.

pub mod config;
pub(crate) mod core;
pub(crate) mod cycle;
pub(crate) mod explain;
pub(crate) mod fit_error;
pub(crate) mod framework;
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
