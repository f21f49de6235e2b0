//! Explains to users why a pod has no node: every filter's result for every node, and the smallest changes that would
//! help.

pub(super) mod api_type;
pub(crate) mod hints;
pub(crate) mod required_change;
pub(crate) mod verdict;
pub(crate) mod verdict_table;
mod volume_changes;
