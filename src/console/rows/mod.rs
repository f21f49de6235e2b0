//! Rows of tables: what each kind shows, as pure functions of an object.
//!
//! A row is made once a change, never on a draw; only what depends on the time (ages) is put into words
//! while drawing, and only for the rows that are seen.

pub(crate) mod cell;
pub(crate) mod controller;
pub(crate) mod custom;
pub(crate) mod event;
pub(crate) mod fault;
pub(crate) mod network;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod server_table;
pub(crate) mod usage;
pub(crate) mod workload;
pub(crate) mod workloads;

use std::sync::Arc;

use kube::Resource;

pub(crate) use cell::{Cell, Column};

use super::health::Health;
use super::resource::{ClusterId, Uid};
use super::store::{Labels, Stored, Summarized};
use super::workloads::Workload;

/// What a row is found by. A uid alone is not enough where a table is of several clusters: one that was made of another's
/// backup has the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RowKey {
    /// Of which cluster, in a table over several; none is the table's own.
    pub(crate) cluster: Option<ClusterId>,
    /// Of what.
    pub(crate) uid: Uid,
}

impl From<Uid> for RowKey {
    fn from(uid: Uid) -> Self {
        Self { cluster: None, uid }
    }
}

/// One line of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// Of which cluster, in a table over several; none is the table's own.
    pub(crate) cluster: Option<ClusterId>,
    /// Whose line it is.
    pub uid: Uid,
    /// Its namespace, if it has one.
    pub(crate) namespace: Option<String>,
    /// Its name.
    pub(crate) name: String,
    /// One cell a column.
    pub(crate) cells: Vec<Cell>,
    /// How it is, where that can be said.
    pub(crate) health: Option<Health>,
    /// Its labels, for `-l` filters.
    pub(crate) labels: Arc<Labels>,
    /// What it is of, in a table of all workloads; none is the table's kind.
    pub(crate) workload: Option<Workload>,
    /// Of rows that are equal in the column they are sorted by, the greater comes first.
    pub(crate) newness: u64,
}

impl Row {
    /// What it is found by.
    pub(crate) fn key(&self) -> RowKey {
        RowKey { cluster: self.cluster, uid: self.uid.clone() }
    }

    /// Whether it is found by this.
    pub(crate) fn has(&self, key: &RowKey) -> bool {
        self.cluster == key.cluster && self.uid == key.uid
    }

    fn of<K: Resource<DynamicType = ()>>(
        object: &K,
        health: Option<Health>,
        cells: Vec<Cell>,
    ) -> Option<Self> {
        let meta = object.meta();
        Some(Self {
            cluster: None,
            uid: Uid::from(meta.uid.as_deref()?),
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
            cells,
            health,
            labels: Arc::new(meta.labels.clone().unwrap_or_default()),
            workload: None,
            newness: 0,
        })
    }

    fn of_entry<K: Summarized>(object: Stored<'_, K>, health: Option<Health>, cells: Vec<Cell>) -> Self {
        Self {
            cluster: None,
            uid: object.uid.clone(),
            namespace: object.namespace().map(str::to_owned),
            name: object.name().to_owned(),
            cells,
            health,
            labels: object.labels.clone(),
            workload: None,
            newness: 0,
        }
    }
}
