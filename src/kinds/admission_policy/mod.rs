//! Strategies of admission policies and their bindings, with the CEL expressions that users write in them.

mod expressions;
mod matching;
mod mutating;
mod validating;

pub use expressions::{Expressions, Mutation, Validation};
