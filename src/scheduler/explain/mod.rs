//! Why a pod has no node, for people: every filter's answer for every node, and the smallest changes that would help.

pub(super) mod api_type;
pub mod diagnosis;
pub mod hint;
pub mod verdict;
pub mod verdict_table;
mod volume_diagnosis;
