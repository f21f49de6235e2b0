//! Rows of tables: what each kind shows, as pure functions of an object.
//!
//! A row is made once a change, never on a draw; only what depends on the time (ages) is put into words
//! while drawing, and only for the rows that are seen.

pub mod cell;
pub mod event;
pub mod network;
pub mod node;
pub mod pod;
pub mod pod_status;
pub mod server_table;
pub mod workload;

use std::collections::BTreeMap;

use kube::Resource;

pub use cell::{Cell, Column};

use super::resource::{Uid, Watched};
use super::store::Stores;
use pod_status::Look;

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
    pub look: Option<Look>,
    /// Its labels, for `-l` filters.
    pub labels: BTreeMap<String, String>,
}

impl Row {
    fn of<K: Resource<DynamicType = ()>>(object: &K, look: Option<Look>, cells: Vec<Cell>) -> Option<Self> {
        let meta = object.meta();
        Some(Self {
            uid: Uid::from(meta.uid.as_deref()?),
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
            cells,
            look,
            labels: meta.labels.clone().unwrap_or_default(),
        })
    }
}

/// The columns of a watched kind.
pub fn columns(kind: Watched) -> Vec<Column> {
    match kind {
        Watched::Pods => pod::columns(),
        Watched::Deployments => workload::deployment_columns(),
        Watched::ReplicaSets => workload::replica_set_columns(),
        Watched::Nodes => node::columns(),
        Watched::Events => event::columns(),
        Watched::Services => network::service_columns(),
        Watched::Namespaces => network::namespace_columns(),
        Watched::Budgets => network::budget_columns(),
    }
}

/// The row of one object, if it (still) exists.
pub fn row(stores: &Stores, kind: Watched, uid: &Uid) -> Option<Row> {
    match kind {
        Watched::Pods => pod::row(stores.pods.get(uid)?),
        Watched::Deployments => workload::deployment_row(stores.deployments.get(uid)?),
        Watched::ReplicaSets => workload::replica_set_row(stores.replica_sets.get(uid)?),
        Watched::Nodes => node::row(stores.nodes.get(uid)?, stores),
        Watched::Events => event::row(stores.events.get(uid)?),
        Watched::Services => network::service_row(stores.services.get(uid)?),
        Watched::Namespaces => network::namespace_row(stores.namespaces.get(uid)?),
        Watched::Budgets => network::budget_row(stores.budgets.get(uid)?),
    }
}

/// Every uid of a kind.
pub fn uids(stores: &Stores, kind: Watched) -> Vec<Uid> {
    fn all<K: Resource<DynamicType = ()>>(store: &super::store::Store<K>) -> Vec<Uid> {
        store.iter().map(|(uid, _)| uid.clone()).collect()
    }
    match kind {
        Watched::Pods => all(&stores.pods),
        Watched::Deployments => all(&stores.deployments),
        Watched::ReplicaSets => all(&stores.replica_sets),
        Watched::Nodes => all(&stores.nodes),
        Watched::Events => all(&stores.events),
        Watched::Services => all(&stores.services),
        Watched::Namespaces => all(&stores.namespaces),
        Watched::Budgets => all(&stores.budgets),
    }
}

/// Whether a kind's first list has arrived.
pub fn synced(stores: &Stores, kind: Watched) -> bool {
    match kind {
        Watched::Pods => stores.pods.synced(),
        Watched::Deployments => stores.deployments.synced(),
        Watched::ReplicaSets => stores.replica_sets.synced(),
        Watched::Nodes => stores.nodes.synced(),
        Watched::Events => stores.events.synced(),
        Watched::Services => stores.services.synced(),
        Watched::Namespaces => stores.namespaces.synced(),
        Watched::Budgets => stores.budgets.synced(),
    }
}
