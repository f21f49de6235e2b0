//! The controllers of Podium's own kinds ([`extension`]): they read shared caches, decide, and write through the API, as
//! any operator does.
//!
//! Architecture Invariant: what only the program that runs the cluster can do (killing a node's processes) is behind a
//! trait, which the composition root implements, and the simulator, too.

pub mod definitions;
pub mod fault;
pub mod fencing;
