//! The integration tests: one binary, a module each subject.

mod console;
mod controllers;
mod crash;
mod instance;
mod kubectl;
mod layers;
mod stopping;
mod runtime;
