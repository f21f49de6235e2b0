//! Controllers: level-triggered loops that bring the cluster closer to its desired state.
//!
//! Each one is a directory or file of its own: pure functions that decide, and a thin shell that reads the shared
//! caches, calls them and writes through the API. They know nothing of one another and communicate only through changed
//! objects.
//!
//! Architecture Invariant: a controller keeps no state that it could not rebuild from the store, and never removes a
//! pod that is bound to a node: only the kubelet does, and `pod_gc` if no kubelet is left to do it.

mod api_service;
mod autoscaler;
mod balancer_pool;
mod bootstrap_signer;
mod bootstrap_token;
mod certificate;
mod cluster_role_aggregation;
mod context;
mod controller_ref;
mod creation_pace;
mod cron_job;
mod custom_resource_definition;
mod daemon_set;
mod deletion_order;
mod deployment;
mod disruption;
mod endpoints;
mod failed_pod_back_off;
mod flow_schema;
mod garbage;
mod hash;
mod history;
mod job;
mod load_balancer;
mod namespace;
mod node_lifecycle;
mod pod_control;
mod pod_gc;
mod registry;
mod replica_set;
mod resource_quota;
mod service_addresses;
mod stateful_set;
mod taint_eviction;
#[cfg(test)]
mod test_cluster;
mod ttl_after_finished;
mod validating_admission_policy;
mod volume;
mod volume_directory;

pub use balancer_pool::BalancerPool;
pub use context::Settings;
pub use custom_resource_definition::establish_definition;
pub use registry::Controllers;
pub use volume_directory::VolumeDirectory;
