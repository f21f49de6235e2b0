//! The integration tests: one binary, a module each subject.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod added_kind;
mod bad_input;
mod batch;
mod bench;
mod closing_lines;
mod connections;
mod console;
mod controllers;
mod crash;
mod data_dirs;
mod draining;
mod hostile;
mod http;
mod images;
mod instance;
mod kubectl;
mod layers;
mod limits;
mod needs;
mod network;
mod node_set;
mod ordinary_user;
mod orphans;
mod persistent;
mod pod_edges;
mod pod_faults;
mod pods;
mod runtime;
mod scheduling;
mod server_side_apply;
mod services;
mod spec;
mod stopping;
mod streams;
mod terminal;
