//! The controllers, by scenario, on virtual time.

mod cluster;
mod deployments;
mod housekeeping;
mod quotas;
mod rollouts;
