//! Why a pod has no node, for people: every filter's answer for every node, and the smallest changes that would help.

pub(super) mod api_type;
pub(crate) mod diagnosis;
pub(crate) mod hint;
pub(crate) mod verdict;
pub(crate) mod verdict_table;
mod volume_diagnosis;
