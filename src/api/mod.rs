//! The only door to the state: the Kubernetes API.
pub mod session;
pub mod schema;
pub mod patch;
