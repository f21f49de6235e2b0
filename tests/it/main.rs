//! The integration tests: one binary, a module each subject.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bad_input;
mod bench;
mod console;
mod controllers;
mod crash;
mod images;
mod instance;
mod kubectl;
mod layers;
mod limits;
mod network;
mod persistent;
mod ordinary_user;
mod pod_faults;
mod pods;
mod runtime;
mod services;
mod stopping;
mod streams;
mod terminal;
