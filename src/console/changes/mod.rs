//! Objects as JSON: the editable part, and the merge of two changes. Pure.

pub(crate) mod editable;
pub mod merge;
