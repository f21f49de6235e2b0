//! The node agent: runs the pods bound to its node.
pub mod images;
pub mod observed;
pub mod plan;
pub mod probe;
pub mod runtime;
pub mod spec;
pub mod status;
