//! Rows of tables: what each kind shows, as pure functions of an object.
//!
//! A row is made once a change, never on a draw; only what depends on the time (ages) is put into words
//! while drawing, and only for the rows that are seen.

pub mod cell;
pub mod event;
pub mod network;
pub mod node;
pub mod pod;
pub mod server_table;
pub mod workload;

use std::collections::BTreeMap;

use kube::Resource;

pub use cell::{Cell, Column};

use super::health::Health;
use super::resource::Uid;

/// One line of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Whose line it is.
    pub uid: Uid,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// One cell a column.
    pub cells: Vec<Cell>,
    /// How it is, where that can be said.
    pub health: Option<Health>,
    /// Its labels, for `-l` filters.
    pub labels: BTreeMap<String, String>,
}

impl Row {
    fn of<K: Resource<DynamicType = ()>>(
        object: &K,
        health: Option<Health>,
        cells: Vec<Cell>,
    ) -> Option<Self> {
        let meta = object.meta();
        Some(Self {
            uid: Uid::from(meta.uid.as_deref()?),
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
            cells,
            health,
            labels: meta.labels.clone().unwrap_or_default(),
        })
    }
}
