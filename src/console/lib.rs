//! The console: a terminal program that controls any Kubernetes cluster through its API alone (CON-14).
//!
//! One Elm loop. [`model::Model::update`] takes a [`console_data::message::Message`] and returns jobs, [`view::draw`]
//! draws the model; only [`console_operations::effect`] (tasks), [`console_data::feed`] (watchers) and [`terminal`] do
//! I/O.
//!
//! ```text
//!  terminal input ─┐                        ┌─► effect::Runner ── tasks ──┐
//!  feed (watch) ───┼─► Message ─► Model ────┤                             │
//!  tasks ──────────┘      ▲       │         └─► dirty? ─► view::draw      │
//!                         └───────┴───────────────────────────────────────┘
//! ```
//!
//! The modules from the bottom up; the modules in a row use only modules in the rows above:
//!
//! | modules | content |
//! |---|---|
//! | [`config`], [`console_state`] | the user's configuration; what the console remembers beside it |
//! | [`terminal`], [`desktop_notification`] | the terminal: its modes, its size; notifications through it |
//! | [`tour`] | the tour for newcomers, and its progress |
//! | [`model`] | the one state: tabs, stacks of screens, panes, the command line; it decides |
//! | [`view`] | draws the model |
//! | [`linear`] | reads the model line by line |
//! | [`joined_clusters`], [`disk_writer`] | tasks of the shell: other clusters; writing of the journal and the tabs to disk |
//! | [`recording`] | sessions that are recorded, replayed and rendered |
//! | `display`, `reload`, `shell` | the loop: output, detection of changes in the user's files, the program |
//!
//! Below it are crates that each use only those above them:
//!
//! | crate | content |
//! |---|---|
//! | [`console_toolkit`] | text, keys, the table of commands, themes and widgets; knows no cluster |
//! | [`console_data`] | what the console knows: the cluster as reported by discovery and watches, the rows of tables, the journal, the past, the user's files; and the messages that bring it |
//! | [`console_operations`] | what the console does: effects, dialogs, operations on objects, drains, copies, terminals in containers |
//! | [`console_screens`] | one module for each screen |
//!
//! Architecture invariant: of all other crates, the console and these use only `object`, `manifest` and `base`. It
//! knows nothing of the control plane it may share a process with, except through the API.

pub(crate) mod config;
pub mod console_state;
pub(crate) mod desktop_notification;
pub(crate) mod disk_writer;
mod display;
mod job_control;
pub mod joined_clusters;
pub mod linear;
pub mod model;
pub mod recording;
mod reload;
mod shell;
pub mod terminal;
pub(crate) mod tour;
pub mod view;

pub use shell::{ConsoleOptions, ExitReason, NoTerminalError, require_terminal, run};
