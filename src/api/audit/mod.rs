//! The audit log of API requests: user, verb, target, time and result (API-19). As Kubernetes' log of
//! `audit.k8s.io/v1`: a policy determines which requests are recorded in what detail, in a file with one
//! event per line.
//!
//! A request carries its audit context ([`Trail`]), which the API's parts add to. The events are encoded and
//! written by a thread of their own.

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
