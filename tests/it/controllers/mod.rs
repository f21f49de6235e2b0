//! The controllers, by scenario, on virtual time.

mod autoscaling;
mod cluster;
mod deployments;
mod housekeeping;
mod quotas;
mod rollouts;
