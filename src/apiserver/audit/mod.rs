//! The audit log of API requests: user, verb, target, time and result (API-19). As in Kubernetes
//! (`audit.k8s.io/v1`), a policy determines which requests are recorded and in what detail; the log is a file
//! with one event per line.
//!
//! A request carries its audit context ([`AuditContext`]), which the API's parts add to. The events are encoded and
//! written by a thread of their own.

mod attributes;
mod context;
mod event;
mod file;
mod log;
mod policy;

pub(crate) use attributes::{AuditAttributes, RequestTarget, Resource, SESSIONS};
pub(crate) use context::{AuditContext, IncomingRequest};
pub use file::AuditFile;
pub use log::AuditLog;
pub use policy::{AuditPolicy, AuditPolicyError};
