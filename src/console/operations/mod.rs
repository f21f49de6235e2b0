//! Operations on objects, as in kubectl: one file per operation, with its dialog and actions.

pub(crate) mod add_node;
pub(crate) mod connection;
pub(crate) mod controller;
pub(crate) mod cron_job;
pub(crate) mod delete;
pub mod drain;
pub(crate) mod fault;
pub(crate) mod fence;
pub(crate) mod forward;
pub(crate) mod label;
mod label_syntax;
pub(crate) mod node;
pub(crate) mod node_shell;
pub(crate) mod plugin;
pub(crate) mod restart;
pub mod scale;
pub(crate) mod set_image;
pub(crate) mod snapshot;
