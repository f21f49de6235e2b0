//! Rules that kinds share, in Kubernetes' words: metadata, names, pod specs and their parts, selectors, quantities.
//! Every error of an object is reported in one response.
//!
//! Pure functions of one object, or of its new and old version. They expect defaulted objects and never look at other
//! objects: rules that depend on others belong to admission. The rules of single kinds are in `kinds`.

mod affinity;
pub(crate) mod changed_part;
pub(crate) mod conditions;
pub(crate) mod container;
pub(crate) mod depth;
pub(crate) mod environment;
pub(crate) mod ephemeral;
mod field;
mod files;
pub(crate) mod metadata;
pub mod names;
mod paths;
pub(crate) mod placement;
pub(crate) mod pod_annotations;
mod pod_context;
pub(crate) mod pod_spec;
mod probe;
mod projection;
pub(crate) mod resources;
mod security;
pub(crate) mod selector;
pub(crate) mod signer;
pub(crate) mod spec_diff;
pub(crate) mod storage;
mod sysctls;
pub(crate) mod volume_sources;
pub(crate) mod volumes;
pub(crate) mod workload;

pub use self::field::{ErrorValue, FieldErrors, Path};
pub use self::field::{FieldError, FieldErrorReason, join};
pub(crate) use self::pod_context::PodContext;
