//! The machinery of the API's objects: schemas of all types, validation and defaults of the parts that kinds share,
//! patches, CEL, certificates, and the API's errors.
//!
//! Architecture Invariant: this crate knows neither a store nor the API's handle. What it decides depends on its
//! arguments alone.

pub mod cel;
pub mod certificates;
pub mod default;
mod error;
pub mod expression;
pub mod formats;
pub mod patch;
pub mod pattern;
mod propagation;
pub mod schema;
pub mod validate;

pub use error::{ApiError, Cause, PolicyDenial};
pub use propagation::Propagation;
