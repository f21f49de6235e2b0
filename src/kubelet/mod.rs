//! The node agent: runs the pods bound to its node.
pub mod images;
pub mod runtime;
