//! What a watch sends: objects of any kind, and their changes in batches.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Serialize;
use serde_json::Value;

use crate::resource::{ResourceKey, Uid};
use crate::server_table::{ColumnDefinition, TableRow};

/// An object of any kind.
pub trait Object: Any + Debug + Send + Sync {
    /// Its metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// All of it that is known, as JSON; costs a copy.
    fn to_json(&self) -> Value;
}

impl<K: Resource<DynamicType = ()> + Serialize + Debug + Send + Sync + 'static> Object for K {
    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }

    fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl Object for TableRow {
    fn metadata(&self) -> &ObjectMeta {
        &self.object.metadata
    }

    fn to_json(&self) -> Value {
        serde_json::to_value(&self.object).unwrap_or_default()
    }
}

/// A change of one kind, as a watcher saw it.
#[derive(Debug)]
pub enum Change<K: ?Sized = dyn Object> {
    /// The whole list; everything not in it is gone.
    Reset(Vec<Arc<K>>),
    /// Created or changed.
    Applied(Arc<K>),
    /// Deleted.
    Deleted(Arc<K>),
}

impl<K: ?Sized> Clone for Change<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Reset(objects) => Self::Reset(objects.clone()),
            Self::Applied(object) => Self::Applied(object.clone()),
            Self::Deleted(object) => Self::Deleted(object.clone()),
        }
    }
}

impl<K: Object> Change<K> {
    fn of_any_kind(self) -> Change {
        let any = |object: Arc<K>| -> Arc<dyn Object> { object };
        match self {
            Self::Reset(objects) => Change::Reset(objects.into_iter().map(any).collect()),
            Self::Applied(object) => Change::Applied(object),
            Self::Deleted(object) => Change::Deleted(object),
        }
    }
}

/// A batch of changes of one resource.
#[derive(Clone, Debug)]
pub struct Delta {
    /// Which.
    pub resource: ResourceKey,
    /// The columns of the server's Table, with a list that came as one.
    pub(crate) columns: Option<Vec<ColumnDefinition>>,
    /// In order.
    pub(crate) changes: Vec<Change>,
}

impl Delta {
    /// Changes of a type that the console knows.
    pub fn of<K: Object + Resource<DynamicType = ()>>(changes: Vec<Change<K>>) -> Self {
        let changes = changes.into_iter().map(Change::of_any_kind).collect();
        Self { resource: ResourceKey::of::<K>(), columns: None, changes }
    }

    /// Changes of any resource as rows of the server's Table; the columns come with a list.
    pub fn of_table(
        resource: ResourceKey,
        columns: Option<Vec<ColumnDefinition>>,
        changes: Vec<Change<TableRow>>,
    ) -> Self {
        Self { resource, columns, changes: changes.into_iter().map(Change::of_any_kind).collect() }
    }
}

/// Which objects a change touched; `All` after a new list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// Anything may differ.
    All,
    /// These differ, appeared or went.
    Some(Vec<Uid>),
}
