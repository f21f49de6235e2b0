//! The controllers, by scenario, on virtual time.

mod cluster;
mod deployments;
mod housekeeping;
mod rollouts;
mod volumes;
