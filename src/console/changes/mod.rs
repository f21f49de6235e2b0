//! Objects as JSON: the editable part, the difference between two, and the merge of two changes. Pure.

pub(crate) mod editable;
pub(crate) mod lines;
pub mod merge;
