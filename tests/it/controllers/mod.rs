//! The controllers, by scenario, on virtual time.

mod accounts;
mod at_most_one;
mod autoscaling;
mod budgets;
pub(crate) mod cluster;
mod cron_jobs;
mod daemon_rollouts;
mod daemon_sets;
mod deployments;
mod endpoints;
mod evictions;
mod housekeeping;
mod huge;
mod job_addresses;
mod job_counts;
mod jobs;
mod node_taints;
mod nodes;
mod pod_garbage;
mod quotas;
mod replica_sets;
mod replication;
mod rollouts;
mod stateful_sets;
mod volumes;
