//! The server's Table (`meta.k8s.io/v1`) of a resource, and the object of each row.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::Value;

/// The `Accept` header that requests a Table.
pub(crate) const ACCEPT: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// The part of the object that each row contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include {
    /// Its metadata.
    Metadata,
    /// The whole object.
    Object,
}

impl Include {
    /// Returns the value of the query parameter `includeObject`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Metadata => "Metadata",
            Self::Object => "Object",
        }
    }
}

/// A `meta.k8s.io/v1` Table; or the response of a server without tables: a plain list, or in a watch a plain object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerTable {
    /// `Table`, or another kind.
    #[serde(default)]
    kind: String,
    /// The list's metadata.
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
    /// The objects of a plain list.
    #[serde(default)]
    items: Vec<DynamicObject>,
    /// The columns; empty in later watch events.
    #[serde(default)]
    pub column_definitions: Vec<ColumnDefinition>,
    /// The rows.
    #[serde(default)]
    pub rows: Vec<TableRow>,
}

impl ServerTable {
    /// Converts to a table: a plain response gets the columns NAME and AGE.
    #[must_use]
    pub fn as_table(mut self) -> Self {
        if self.kind == "Table" {
            return self;
        }
        let column = |name: &str| ColumnDefinition { name: name.into(), kind: "string".into(), priority: 0 };
        self.column_definitions = vec![column("Name"), column("Age")];
        let objects = match self.kind.strip_suffix("List") {
            Some(_) => std::mem::take(&mut self.items),
            None => vec![object(self.metadata.clone())],
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
    pub(crate) name: String,
    /// `string`, `integer`, `date` …
    #[serde(default, rename = "type")]
    pub(crate) kind: String,
    /// 0 for columns that are always shown, higher for wide ones.
    #[serde(default)]
    pub(crate) priority: i32,
}

/// One row.
#[derive(Clone, Debug, Deserialize)]
pub struct TableRow {
    /// One value per column.
    #[serde(default)]
    pub(crate) cells: Vec<Value>,
    /// The object, or its metadata alone, as requested.
    #[serde(default = "nothing")]
    pub(crate) object: DynamicObject,
}

fn nothing() -> DynamicObject {
    object(ObjectMeta::default())
}

fn object(metadata: ObjectMeta) -> DynamicObject {
    DynamicObject { types: None, metadata, data: Value::Null }
}
