//! The only door to the state: the Kubernetes API.

pub mod default;
pub mod session;
