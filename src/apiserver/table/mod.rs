//! Objects as rows for `kubectl get`: `meta.k8s.io/v1 Table` with Kubernetes' own columns.
//!
//! The columns and cells of a kind are defined with the kind (`kinds`); this file only encodes them.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::negotiate::MetaVersion;
use kinds::Strategy;
use object::{Object, ServedKind};

/// The part of its object that a row includes: the `includeObject` parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    /// Nothing.
    None,
    /// A `PartialObjectMetadata`.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

impl IncludeObject {
    /// Parses the query parameter; `None` if it is none of the three.
    pub(crate) fn from_parameter(text: &str) -> Option<Self> {
        match text {
            "None" => Some(Self::None),
            "" | "Metadata" => Some(Self::Metadata),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

/// The metadata of the list that the table shows.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TableMeta {
    /// The list's revision, or the object's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) resource_version: String,
    /// The start of the next page.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub(crate) continue_token: String,
    /// The number of remaining objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remaining_item_count: Option<i64>,
}

/// Encodes objects of one kind as a table.
pub(super) struct Table<'a> {
    strategy: &'a dyn Strategy,
    served: ServedKind,
    version: MetaVersion,
    include: IncludeObject,
    /// The reference time of ages.
    now: Timestamp,
}

/// The end of a table, after its last row.
pub(super) const TAIL: &str = "]}";

impl<'a> Table<'a> {
    pub(super) fn new(
        strategy: &'a dyn Strategy,
        served: ServedKind,
        version: MetaVersion,
        include: IncludeObject,
        now: Timestamp,
    ) -> Self {
        Self { strategy, served, version, include, now }
    }

    /// Returns the JSON of a whole table.
    pub(super) fn whole<'o>(
        &self,
        objects: impl IntoIterator<Item = &'o Object>,
        metadata: &TableMeta,
    ) -> Vec<u8> {
        let mut out = self.head(metadata).into_bytes();
        for (n, object) in objects.into_iter().enumerate() {
            if n > 0 {
                out.push(b',');
            }
            out.extend(self.row(object));
        }
        out.extend(TAIL.as_bytes());
        out
    }

    /// Returns a table's JSON up to its first row.
    pub(super) fn head(&self, metadata: &TableMeta) -> String {
        format!(
            "{{\"kind\":\"Table\",\"apiVersion\":\"{}\",\"metadata\":{},\"columnDefinitions\":{},\"rows\":[",
            self.version.api_version(),
            json(metadata),
            json(&self.strategy.columns()),
        )
    }

    /// Returns one row's JSON; the caller puts commas between rows.
    pub(super) fn row(&self, object: &Object) -> Vec<u8> {
        let cells = json(&self.strategy.cells(object, self.now));
        let condition = self.strategy.row_condition(object);
        let conditions =
            condition.map(|condition| format!(",\"conditions\":[{}]", json(&condition))).unwrap_or_default();
        let mut row = format!("{{\"cells\":{cells}{conditions},\"object\":").into_bytes();
        match (self.include, self.served) {
            (IncludeObject::None, _) => row.extend_from_slice(b"null"),
            (IncludeObject::Metadata, _) => {
                let partial = self.version.partial(&object.client_metadata());
                row.extend_from_slice(json(&partial).as_bytes());
            }
            (IncludeObject::Object, ServedKind::Stored(_)) => row.extend_from_slice(&object.json()),
            (IncludeObject::Object, served) => row.extend_from_slice(json(&served.value(object)).as_bytes()),
        }
        row.push(b'}');
        row
    }
}

/// Returns a table of objects that are not stored, each with its cells. The columns have names and types; the first
/// one is the object's name.
pub(super) fn of_rows<'o>(
    version: MetaVersion,
    include: IncludeObject,
    columns: &[(&str, &str)],
    rows: impl Iterator<Item = (&'o Value, Value)>,
) -> Value {
    let column = |(n, (name, type_)): (usize, &(&str, &str))| {
        let format = if n == 0 { "name" } else { "" };
        json!({"name": name, "type": type_, "format": format, "description": "", "priority": 0})
    };
    let columns: Vec<Value> = columns.iter().enumerate().map(column).collect();
    let row = |(object, cells): (&'o Value, Value)| {
        let object = match include {
            IncludeObject::None => Value::Null,
            IncludeObject::Metadata => version.partial(&object["metadata"]),
            IncludeObject::Object => object.clone(),
        };
        json!({"cells": cells, "object": object})
    };
    let rows: Vec<Value> = rows.map(row).collect();
    json!({"kind": "Table", "apiVersion": version.api_version(), "metadata": {}, "columnDefinitions": columns, "rows": rows})
}

fn json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("the parts of a table are JSON values")
}

#[cfg(test)]
mod tests;
