//! The integration tests: one binary, a module each subject.

mod crash;
mod instance;
mod layers;
