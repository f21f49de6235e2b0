//! Kubernetes' rules for objects: every fault of an object in one answer, in Kubernetes' words.
//!
//! Pure functions of one object, or of its new and old version. They expect defaulted objects, and never
//! look at other objects: what depends on them is admission's.

mod field;
mod metadata;
mod names;

pub use field::{FieldError, FieldErrorReason, join};
