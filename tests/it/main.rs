//! The integration tests: one binary, a module each subject.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bad_input;
mod console;
mod controllers;
mod crash;
mod instance;
mod kubectl;
mod layers;
mod ordinary_user;
mod pod_faults;
mod runtime;
mod stopping;
mod terminal;
