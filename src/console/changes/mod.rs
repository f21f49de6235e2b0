//! Objects as JSON: the part of one that can be typed in, what differs between two, and how two changes of one
//! object become one. Pure.

pub(crate) mod editable;
pub(crate) mod lines;
pub mod merge;
