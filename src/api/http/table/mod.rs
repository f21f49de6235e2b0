//! Objects as rows for `kubectl get`: `meta.k8s.io/v1 Table` with Kubernetes' own columns.
//!
//! The columns of a kind and its cells stand side by side in [`rows`]; this file only encodes. Ages are
//! relative to the `now` it is given.

mod columns;
mod rows;

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

pub use columns::Column;

use crate::object::{Kind, Object, ServedKind};

/// What a row carries of its object: the `includeObject` parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// A `PartialObjectMetadata`.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

impl IncludeObject {
    /// Reads the query parameter; `None` when it is neither of the three.
    pub fn from_parameter(text: &str) -> Option<Self> {
        match text {
            "None" => Some(Self::None),
            "" | "Metadata" => Some(Self::Metadata),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

/// The metadata of the list the table stands for.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TableMeta {
    /// The list's revision, or the object's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Where the next page begins.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
    /// How many more there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<i64>,
}

/// A row's own condition, by which printers hide finished pods.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RowCondition {
    #[serde(rename = "type")]
    type_: &'static str,
    status: &'static str,
    reason: &'static str,
    message: &'static str,
}

#[derive(Serialize)]
struct Row<'a> {
    cells: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conditions: Option<[RowCondition; 1]>,
    object: Option<Cow<'a, RawValue>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Table<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: &'a TableMeta,
    column_definitions: &'a [Column],
    rows: Vec<Row<'a>>,
}

/// The columns of a kind, also for those that draw their own tables.
pub fn columns(kind: Kind) -> &'static [Column] {
    columns::of(kind)
}

/// The cells of one object, one for each of the kind's columns.
pub fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    rows::cells(object, now)
}

/// A table of objects of one kind, encoded as JSON.
pub fn table<'a>(
    served: ServedKind,
    objects: impl IntoIterator<Item = &'a Object>,
    include: IncludeObject,
    metadata: &TableMeta,
    now: Timestamp,
) -> Vec<u8> {
    let rows = objects
        .into_iter()
        .map(|object| Row {
            cells: rows::cells(object, now),
            conditions: rows::condition(object),
            object: match (include, served) {
                (IncludeObject::None, _) => None,
                (IncludeObject::Metadata, _) => partial(object).map(Cow::Owned),
                (IncludeObject::Object, ServedKind::Stored(_)) => {
                    serde_json::from_slice::<&RawValue>(object.json()).ok().map(Cow::Borrowed)
                }
                (IncludeObject::Object, ServedKind::Other(_)) => {
                    serde_json::value::to_raw_value(&served.value(object)).ok().map(Cow::Owned)
                }
            },
        })
        .collect();
    let column_definitions = columns::of(served.kind());
    let table = Table { kind: "Table", api_version: "meta.k8s.io/v1", metadata, column_definitions, rows };
    serde_json::to_vec(&table).expect("cells are JSON values")
}

fn partial(object: &Object) -> Option<Box<RawValue>> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Partial<'a> {
        kind: &'static str,
        api_version: &'static str,
        metadata: &'a k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    }
    let partial =
        Partial { kind: "PartialObjectMetadata", api_version: "meta.k8s.io/v1", metadata: object.meta() };
    serde_json::value::to_raw_value(&partial).ok()
}

#[cfg(test)]
mod tests;
