//! Rows of kinds without a view of their own, from the server-side Table.

use std::sync::Arc;

use compact_str::ToCompactString;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::cell::{Align, ColumnVisibility};
use super::{Cell, Column, Row};
use crate::resource::Uid;
use crate::server_table::{ColumnDefinition, TableRow};
use console_toolkit::health::Health;
use console_toolkit::text::clean;

/// Converts the server's columns.
pub(crate) fn columns(definitions: &[ColumnDefinition]) -> Vec<Column> {
    let column = |definition: &ColumnDefinition| Column {
        name: clean(&definition.name.to_uppercase()).into_owned().into(),
        align: if matches!(definition.kind.as_str(), "integer" | "number") {
            Align::Right
        } else {
            Align::Left
        },
        visibility: if definition.priority > 0 { ColumnVisibility::Wide } else { ColumnVisibility::Always },
        weight: match definition.name.as_str() {
            "Name" => 9,
            "Age" | "Status" | "Phase" | "Ready" => 8,
            _ => 5,
        },
        usual: 0,
        short: None,
        floor: 0,
        usage: false,
    };
    definitions.iter().map(column).collect()
}

/// Converts a row of the server.
pub(crate) fn row(definitions: &[ColumnDefinition], row: &TableRow) -> Option<Row> {
    let meta = &row.object.metadata;
    let cells = definitions.iter().zip(&row.cells).map(|(definition, value)| cell(definition, value, meta));
    Some(Row {
        cluster: None,
        uid: Uid::from(meta.uid.as_deref()?),
        namespace: meta.namespace.clone(),
        name: meta.name.clone().unwrap_or_default(),
        cells: cells.collect(),
        health: meta.deletion_timestamp.is_some().then_some(Health::Terminating),
        labels: Arc::new(meta.labels.clone().unwrap_or_default()),
        workload: None,
        newness: 0,
    })
}

fn cell(definition: &ColumnDefinition, value: &Value, meta: &ObjectMeta) -> Cell {
    // The server's text is the age at the time of its response; the age of this cell advances.
    if definition.name == "Age" {
        return Cell::Age(meta.creation_timestamp.as_ref().map(|time| time.0));
    }
    match value {
        Value::Null => Cell::Dim("<none>".into()),
        Value::Number(number) => {
            number.as_i64().map_or_else(|| Cell::Text(number.to_compact_string()), Cell::Number)
        }
        Value::String(text) if definition.kind == "date" => {
            text.parse::<Timestamp>().map_or_else(|_| Cell::server_text(text), |time| Cell::Age(Some(time)))
        }
        Value::String(text) if text == "<none>" => Cell::Dim(text.into()),
        Value::String(text) => Cell::server_text(text),
        other => Cell::server_text(&other.to_string()),
    }
}
