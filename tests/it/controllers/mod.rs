//! The controllers, by scenario, on virtual time.

mod cluster;
mod deployments;
mod housekeeping;
mod replication;
mod rollouts;
mod stateful_sets;
