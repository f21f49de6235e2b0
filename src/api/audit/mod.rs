//! The audit log: who asked for what, when, and what came of it (API-19). As Kubernetes' of `audit.k8s.io/v1`: a policy
//! says how much of which requests is written, to a file, one event a line.
//!
//! A request's notes ([`Trail`]) go with it; whoever learns something of it tells them. The events are made and written
//! by a thread of their own.

mod attributes;
mod event;
mod file;
mod log;
mod policy;
mod trail;

pub(crate) use attributes::{Asked, On, Resource, SESSIONS};
pub use file::AuditFile;
pub use log::AuditLog;
pub use policy::{AuditPolicy, AuditPolicyError};
pub(crate) use trail::{Came, Trail};
