//! The controllers, by scenario, on virtual time.

mod cluster;
mod daemon_rollouts;
mod daemon_sets;
mod deployments;
mod housekeeping;
mod rollouts;
