//! The scheduler's knowledge of the cluster: nodes with their totals, pods as far as they affect decisions, and
//! counts by domain; updated change by change, read by every cycle.

pub(crate) mod budgets;
pub(crate) mod default_spread;
pub(crate) mod domain_count;
pub(crate) mod domain_counts;
pub(crate) mod domain_terms;
pub(crate) mod existing_terms;
pub(crate) mod images;
pub(crate) mod node_info;
pub(crate) mod nominator;
pub(crate) mod pod_affinity;
pub(crate) mod pod_info;
pub(crate) mod requests;
pub(crate) mod snapshot;
pub(crate) mod spread;
pub(crate) mod storage;
pub(crate) mod topology;
