//! The integration tests: one binary, a module each subject.

mod controllers;
mod crash;
mod instance;
mod layers;
mod console;
