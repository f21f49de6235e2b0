//! The controllers of Podium's own kinds ([`extension`]): they read shared caches, decide, and write through the API, as
//! any operator does.
//!
//! Architecture Invariant: what only the program that runs the cluster can do (killing a node's processes, breaking a
//! disk) is behind traits, which the composition root implements, and for fencing the simulator, too.

pub mod definitions;
pub mod faults;
pub mod fence_after;
pub mod fencing;
pub mod scenarios;
pub mod snapshots;
