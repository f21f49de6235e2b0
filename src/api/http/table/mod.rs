//! Objects as rows for `kubectl get`: `meta.k8s.io/v1 Table` with Kubernetes' own columns.
//!
//! The columns of a kind and its cells stand side by side in [`rows`]; this file only encodes. Ages are
//! relative to the `now` it is given.

mod columns;
mod rows;

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

pub use columns::Column;

use super::negotiate::MetaVersion;
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
    table_in(MetaVersion::V1, served, objects, include, metadata, now)
}

/// A table in a version of `meta.k8s.io`.
pub(super) fn table_in<'a>(
    version: MetaVersion,
    served: ServedKind,
    objects: impl IntoIterator<Item = &'a Object>,
    include: IncludeObject,
    metadata: &TableMeta,
    now: Timestamp,
) -> Vec<u8> {
    let mut out = head(served, metadata, version).into_bytes();
    for (n, object) in objects.into_iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        out.extend(row(served, object, include, version, now));
    }
    out.extend(TAIL.as_bytes());
    out
}

/// A table's JSON up to its first row.
pub(super) fn head(served: ServedKind, metadata: &TableMeta, version: MetaVersion) -> String {
    format!(
        "{{\"kind\":\"Table\",\"apiVersion\":\"{}\",\"metadata\":{},\"columnDefinitions\":{},\"rows\":[",
        version.api_version(),
        json(metadata),
        json(columns::of(served.kind())),
    )
}

/// What follows a table's last row.
pub(super) const TAIL: &str = "]}";

fn json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("metadata and columns are JSON values")
}

/// One row's JSON; rows stand between commas.
pub(super) fn row(
    served: ServedKind,
    object: &Object,
    include: IncludeObject,
    version: MetaVersion,
    now: Timestamp,
) -> Vec<u8> {
    let row = Row {
        cells: rows::cells(object, now),
        conditions: rows::condition(object),
        object: match (include, served) {
            (IncludeObject::None, _) => None,
            (IncludeObject::Metadata, _) => partial(object, version).map(Cow::Owned),
            (IncludeObject::Object, ServedKind::Stored(_)) => {
                serde_json::from_slice::<&RawValue>(object.json()).ok().map(Cow::Borrowed)
            }
            (IncludeObject::Object, ServedKind::Other(_)) => {
                serde_json::value::to_raw_value(&served.value(object)).ok().map(Cow::Owned)
            }
        },
    };
    serde_json::to_vec(&row).expect("cells are JSON values")
}

fn partial(object: &Object, version: MetaVersion) -> Option<Box<RawValue>> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Partial<'a> {
        kind: &'static str,
        api_version: &'static str,
        metadata: &'a ObjectMeta,
    }
    let api_version = version.api_version();
    let partial = Partial { kind: "PartialObjectMetadata", api_version, metadata: object.meta() };
    serde_json::value::to_raw_value(&partial).ok()
}

#[cfg(test)]
mod tests;
