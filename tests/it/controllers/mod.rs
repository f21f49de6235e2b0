//! The controllers, by scenario, on virtual time.

mod budgets;
mod cluster;
mod daemon_rollouts;
mod daemon_sets;
mod deployments;
mod housekeeping;
mod nodes;
mod pod_garbage;
mod rollouts;
