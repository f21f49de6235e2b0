//! The shape of every type the API takes: one graph, made from the schemas of `k8s-openapi`.
//!
//! Patches, field validation, protobuf decoding and field ownership all walk this graph instead of
//! the generated types, so each of them is one small piece of code and not one copy a type.
//! It never holds documentation; [`roots`] gives the whole schemas to those who print them.

mod check;
mod duplicates;
mod empties;
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
pub(crate) use empties::drop_empties;
pub use graph::{Field, Graph, ObjectType, Scalar, Shape, TypeId, graph};
pub(crate) use merge_keys::{ListType, MapType, MergeRule, PatchStrategy, merge_rule};
pub(crate) use nulls::fill_nulls;
pub(crate) use props::schema_props;
pub(crate) use scalars::read_scalars;

/// How deep a document may nest before it is refused, like the JSON decoder of Kubernetes' clients.
pub(crate) const MAX_DEPTH: usize = 128;
