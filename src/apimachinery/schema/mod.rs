//! The shape of every type of the API: one graph, generated from the schemas of `k8s-openapi`.
//!
//! Patches, field validation, protobuf decoding and field ownership all walk this graph instead of the
//! generated types, so each of them is one small piece of code and not one copy per type. It never holds
//! documentation; [`complete`] has the complete schemas for OpenAPI.

mod check;
pub mod complete;
mod duplicates;
mod empty_values;
#[cfg(all(test, feature = "schemas"))]
mod generate;
mod graph;
mod merge_keys;
mod nulls;
mod props;
pub mod roots;
mod scalars;
#[cfg(test)]
mod table;

pub use check::check_type;
pub use check::{SchemaReport, TypeMismatch, schema_check};
pub use duplicates::{DuplicateFields, duplicate_fields};
pub use empty_values::drop_empties;
pub use graph::{Field, Graph, ObjectType, Scalar, Shape, TypeId, graph};
pub use merge_keys::{ListType, MapType, MergeRule, PatchStrategy, merge_rule};
pub use nulls::fill_nulls;
pub use props::schema_props;
pub use scalars::read_scalars;

/// The limit on a document's nesting, as in the JSON decoder of Kubernetes' clients.
pub const MAX_DEPTH: usize = 128;
