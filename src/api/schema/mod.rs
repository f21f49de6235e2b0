//! The shape of every type of the API: one graph, generated from the schemas of `k8s-openapi`.
//!
//! Patches, field validation, protobuf decoding and field ownership all walk this graph instead of the
//! generated types, so each of them is one small piece of code and not one copy per type. It never holds
//! documentation; [`complete`] has the complete schemas for OpenAPI.

mod check;
pub(crate) mod complete;
mod duplicates;
mod empty_values;
#[cfg(test)]
mod generate;
mod graph;
mod merge_keys;
mod nulls;
mod props;
pub(crate) mod roots;
mod scalars;
#[cfg(test)]
mod table;

pub(crate) use check::{SchemaReport, check_type, schema_check};
pub(crate) use duplicates::duplicate_fields;
pub(crate) use empty_values::drop_empties;
pub use graph::{Field, Graph, ObjectType, Scalar, Shape, TypeId, graph};
pub(crate) use merge_keys::{ListType, MapType, MergeRule, PatchStrategy, merge_rule};
pub(crate) use nulls::fill_nulls;
pub(crate) use props::schema_props;
pub(crate) use scalars::read_scalars;

/// The limit on a document's nesting, as in the JSON decoder of Kubernetes' clients.
pub(crate) const MAX_DEPTH: usize = 128;
