//! Rules that kinds share, in Kubernetes' words: metadata, names, pod specs and their parts, selectors, quantities.
//! Every error of an object is reported in one response.
//!
//! Pure functions of one object, or of its new and old version. They expect defaulted objects and never look at other
//! objects: rules that depend on others belong to admission. The rules of single kinds are in `kinds`.

mod affinity;
pub mod changed_part;
pub mod conditions;
pub mod container;
pub mod depth;
pub mod environment;
pub mod ephemeral;
mod field;
mod files;
pub mod metadata;
pub mod names;
mod paths;
pub mod placement;
pub mod pod_annotations;
mod pod_context;
pub mod pod_spec;
mod probe;
mod projection;
pub mod resources;
mod security;
pub mod selector;
pub mod signer;
pub mod spec_diff;
pub mod storage;
mod sysctls;
pub mod volume_sources;
pub mod volumes;
pub mod workload;

pub use self::field::{ErrorValue, FieldErrors, Path};
pub use self::field::{FieldError, FieldErrorReason, join};
pub use self::pod_context::PodContext;
