//! Rules that kinds share, in Kubernetes' words: metadata, names, pod specs and what they are made of, selectors,
//! quantities. Every fault of an object is told in one answer.
//!
//! Pure functions of one object, or of its new and old version. They expect defaulted objects, and never
//! look at other objects: what depends on them is admission's. What is particular to one kind is in `kinds`.

mod affinity;
pub(in crate::api) mod changed;
pub(in crate::api) mod container;
pub(in crate::api) mod environment;
pub(in crate::api) mod ephemeral;
mod field;
pub(in crate::api) mod metadata;
pub(in crate::api) mod names;
pub(in crate::api) mod placement;
pub(in crate::api) mod pod_spec;
mod probe;
pub(in crate::api) mod resources;
pub(in crate::api) mod selector;
pub(in crate::api) mod spec_diff;
pub(in crate::api) mod storage;
pub(in crate::api) mod volumes;
pub(in crate::api) mod workload;

pub use self::field::{FieldError, FieldErrorReason, join};
pub(in crate::api) use self::field::{FieldErrors, Path, Shown};
