//! Objects as JSON: the editable part, and the merge of two changes. Pure.

pub mod editable;
pub mod merge;
