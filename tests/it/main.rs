//! The integration tests: one binary, a module each subject.
mod runtime;
