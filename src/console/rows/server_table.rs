//! Rows of kinds we have no store of: what the server's own Table says.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use super::cell::{Align, Shown};
use super::pod_status::Look;
use super::{Cell, Column, Row};
use crate::console::resource::Uid;
use crate::console::text::clean;

/// `Accept` that asks for a Table.
pub const ACCEPT: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// A `meta.k8s.io/v1` Table; or what a server that makes none answers in its place: a plain list, or in
/// a watch a plain object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerTable {
    /// `Table`, or another kind.
    #[serde(default)]
    kind: String,
    /// Where the list stands.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The objects of a plain list.
    #[serde(default)]
    items: Vec<Partial>,
    /// The columns; empty on later watch events.
    #[serde(default)]
    pub column_definitions: Vec<ColumnDefinition>,
    /// The rows.
    #[serde(default)]
    pub rows: Vec<TableRow>,
}

impl ServerTable {
    /// As a table: a plain answer gets the columns NAME and AGE.
    #[must_use]
    pub fn as_table(mut self) -> Self {
        if self.kind == "Table" {
            return self;
        }
        let column = |name: &str| ColumnDefinition { name: name.into(), kind: "string".into(), priority: 0 };
        self.column_definitions = vec![column("Name"), column("Age")];
        let objects = match self.kind.strip_suffix("List") {
            Some(_) => std::mem::take(&mut self.items),
            None => vec![Partial { metadata: self.metadata.clone() }],
        };
        self.rows = objects
            .into_iter()
            .map(|object| {
                let name = object.metadata.name.clone().unwrap_or_default();
                TableRow { cells: vec![Value::String(name), Value::Null], object }
            })
            .collect();
        self
    }
}

/// One column.
#[derive(Clone, Debug, Deserialize)]
pub struct ColumnDefinition {
    /// Heading.
    pub name: String,
    /// `string`, `integer`, `date` …
    #[serde(default, rename = "type")]
    pub kind: String,
    /// Zero is always shown, more is wide.
    #[serde(default)]
    pub priority: i32,
}

/// One row.
#[derive(Clone, Debug, Deserialize)]
pub struct TableRow {
    /// One value a column.
    #[serde(default)]
    pub cells: Vec<Value>,
    /// At least the metadata of the object.
    #[serde(default)]
    pub object: Partial,
}

/// Metadata of the object of a row.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Partial {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
}

/// Our columns for the server's.
pub fn columns(definitions: &[ColumnDefinition]) -> Vec<Column> {
    let column = |definition: &ColumnDefinition| Column {
        name: clean(&definition.name.to_uppercase()).into_owned().into(),
        align: if matches!(definition.kind.as_str(), "integer" | "number") {
            Align::Right
        } else {
            Align::Left
        },
        shown: if definition.priority > 0 { Shown::Wide } else { Shown::Always },
        weight: match definition.name.as_str() {
            "Name" => 9,
            "Age" => 8,
            _ => 5,
        },
        usual: 0,
    };
    definitions.iter().map(column).collect()
}

/// Our row for the server's.
pub fn row(definitions: &[ColumnDefinition], row: &TableRow) -> Option<Row> {
    let meta = &row.object.metadata;
    let cells = definitions.iter().zip(&row.cells).map(|(definition, value)| cell(definition, value, meta));
    Some(Row {
        uid: Uid::from(meta.uid.as_deref()?),
        namespace: meta.namespace.clone(),
        name: meta.name.clone().unwrap_or_default(),
        cells: cells.collect(),
        look: meta.deletion_timestamp.is_some().then_some(Look::Terminating),
        labels: meta.labels.clone().unwrap_or_default(),
    })
}

fn cell(definition: &ColumnDefinition, value: &Value, meta: &ObjectMeta) -> Cell {
    // The server's age is as old as its answer; ours goes on.
    if definition.name == "Age" {
        return Cell::Age(meta.creation_timestamp.as_ref().map(|time| time.0));
    }
    match value {
        Value::Null => Cell::Dim("<none>".into()),
        Value::Number(number) => number.as_i64().map_or_else(|| Cell::Text(number.to_string()), Cell::Number),
        Value::String(text) if definition.kind == "date" => {
            text.parse::<Timestamp>().map_or_else(|_| Cell::said(text), |time| Cell::Age(Some(time)))
        }
        Value::String(text) if text == "<none>" => Cell::Dim(text.clone()),
        Value::String(text) => Cell::said(text),
        other => Cell::said(&other.to_string()),
    }
}
