//! The console layer.

pub mod describe;
pub mod drain;
pub mod logs;
pub mod pane;
pub mod refusal;
pub mod rollout;
