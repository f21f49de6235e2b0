//! Operations on objects, as in kubectl: one file per operation, with its dialog and actions.

pub mod add_node;
pub mod connection;
pub mod controller;
pub mod cron_job;
pub mod delete;
pub mod drain;
pub mod fault;
pub mod fence;
pub mod forward;
pub mod image;
pub mod label;
mod label_syntax;
pub mod node;
pub mod node_shell;
pub mod plugin;
pub mod restart;
pub mod scale;
pub mod set_image;
pub mod snapshot;
