//! Rows of tables: the cells for each kind, as pure functions of an object.
//!
//! A row is built once for each change, never while drawing; only ages, which depend on the time, are formatted while
//! drawing, and only for visible rows.

pub mod cell;
pub(crate) mod column_cells;
pub mod controller;
pub mod custom;
pub mod event;
pub mod fault;
pub(crate) mod network;
pub mod node;
pub(crate) mod pod;
pub(crate) mod server_table;
pub mod usage;
pub mod workload;
pub mod workloads;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

pub use cell::{Cell, Column};
use column_cells::{RowColumn, cells};

use super::resource::{ClusterId, Uid};
use super::store::{Labels, PackedKind, StoredObject};
use super::workloads::Workload;
use console_toolkit::health::Health;

/// Identifies a row. A uid alone is not sufficient in a table of several clusters: a cluster restored from the backup
/// of another one has the same uids.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowKey {
    /// The cluster, in a table over several clusters; `None` is the table's own.
    pub cluster: Option<ClusterId>,
    /// The uid of the object.
    pub uid: Uid,
}

impl From<Uid> for RowKey {
    fn from(uid: Uid) -> Self {
        Self { cluster: None, uid }
    }
}

/// One row of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The cluster, in a table over several clusters; `None` is the table's own.
    pub cluster: Option<ClusterId>,
    /// The uid of the object.
    pub uid: Uid,
    /// The namespace, if it has one.
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: String,
    /// One cell for each column of the table.
    pub cells: Vec<Cell>,
    /// The health, if it is known.
    pub health: Option<Health>,
    /// The labels, for `-l` filters.
    pub labels: Arc<Labels>,
    /// The kind, in a table of all workloads; `None` is the table's own.
    pub workload: Option<Workload>,
    /// Orders rows with equal cells in the sort column: the greatest value comes first.
    pub newness: u64,
}

impl Row {
    /// Returns the key of the row.
    pub fn key(&self) -> RowKey {
        RowKey { cluster: self.cluster, uid: self.uid.clone() }
    }

    /// Returns whether this key identifies the row.
    pub(crate) fn has(&self, key: &RowKey) -> bool {
        self.cluster == key.cluster && self.uid == key.uid
    }

    /// Returns the row of an object in these columns.
    fn of<K: Resource<DynamicType = ()>>(
        object: &K,
        health: Option<Health>,
        columns: &[RowColumn<K>],
    ) -> Option<Self> {
        Self::of_parts(object.meta(), health, columns, object)
    }

    /// Returns the row of an object whose cells are filled from `parts`: the object and what else they show.
    fn of_parts<T>(
        meta: &ObjectMeta,
        health: Option<Health>,
        columns: &[RowColumn<T>],
        parts: &T,
    ) -> Option<Self> {
        Some(Self {
            cluster: None,
            uid: Uid::from(meta.uid.as_deref()?),
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
            cells: cells(columns, parts),
            health,
            labels: Arc::new(meta.labels.clone().unwrap_or_default()),
            workload: None,
            newness: 0,
        })
    }

    /// Returns the row of an entry whose cells are filled from `parts`: the entry and what else they show.
    fn of_entry<K: PackedKind, T>(
        object: StoredObject<'_, K>,
        health: Option<Health>,
        columns: &[RowColumn<T>],
        parts: &T,
    ) -> Self {
        Self {
            cluster: None,
            uid: object.uid.clone(),
            namespace: object.namespace().map(str::to_owned),
            name: object.name().to_owned(),
            cells: cells(columns, parts),
            health,
            labels: object.labels.clone(),
            workload: None,
            newness: 0,
        }
    }
}
