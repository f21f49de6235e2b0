//! What the scheduler knows of the cluster: nodes with their totals, pods as they matter to decisions, and what is
//! counted by domain; kept up to date change by change, read by every cycle.

pub mod budgets;
pub mod default_spread;
pub mod domain_count;
pub mod domain_counts;
pub mod domain_terms;
pub mod existing_terms;
pub mod images;
pub mod node_info;
pub mod nominated;
pub mod pod_affinity;
pub mod pod_info;
pub mod requests;
pub mod snapshot;
pub mod spread;
pub mod storage;
pub mod topology;
