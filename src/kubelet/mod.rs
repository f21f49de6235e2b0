//! The node agent: runs the pods bound to its node.
pub mod runtime;
