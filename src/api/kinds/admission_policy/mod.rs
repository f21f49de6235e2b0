//! Admission policies and their bindings: what may be written, in expressions that users bring, and where that holds.

mod expressions;
mod matching;
mod mutating;
mod validating;

pub(crate) use expressions::{Expressions, Mutation, Validation};
