//! The content of watch messages: objects of any kind, and batches of their changes.

use std::sync::Arc;

use kube::Resource;

use super::any_object::Object;
use super::packed_object::ObjectPacker;
use crate::resource::{ObjectRef, ResourceKey, Uid};
use crate::server_table::{ColumnDefinition, TableRow};

/// A change of one kind, as a watcher saw it.
#[derive(Debug)]
pub enum Change<K: ?Sized = dyn Object> {
    /// The complete list; objects that are not in it are deleted.
    Reset(Vec<Arc<K>>),
    /// A part of a list that is still arriving; it deletes nothing.
    Listed(Vec<Arc<K>>),
    /// Created or changed.
    Applied(Arc<K>),
    /// Deleted.
    Deleted(Arc<K>),
}

impl<K: ?Sized> Clone for Change<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Reset(objects) => Self::Reset(objects.clone()),
            Self::Listed(objects) => Self::Listed(objects.clone()),
            Self::Applied(object) => Self::Applied(object.clone()),
            Self::Deleted(object) => Self::Deleted(object.clone()),
        }
    }
}

impl<K: Object> Change<K> {
    fn pack(self, keeper: &mut ObjectPacker) -> Change {
        let mut all = |objects: Vec<Arc<K>>| objects.into_iter().map(|object| keeper.keep(object)).collect();
        match self {
            Self::Reset(objects) => Change::Reset(all(objects)),
            Self::Listed(objects) => Change::Listed(all(objects)),
            Self::Applied(object) => Change::Applied(keeper.keep(object)),
            Self::Deleted(object) => Change::Deleted(keeper.keep(object)),
        }
    }
}

/// A batch of changes of one resource.
#[derive(Clone, Debug)]
pub struct Delta {
    /// The resource.
    pub resource: ResourceKey,
    /// The columns of the server's Table, if the batch has a list in that form.
    pub(crate) columns: Option<Vec<ColumnDefinition>>,
    /// The changes, in order.
    pub(crate) changes: Vec<Change>,
}

impl Delta {
    /// Creates a batch for a type that the console knows.
    pub fn of<K: Object + Resource<DynamicType = ()>>(changes: Vec<Change<K>>) -> Self {
        let mut keeper = ObjectPacker::default();
        let changes = changes.into_iter().map(|change| change.pack(&mut keeper)).collect();
        Self { resource: ResourceKey::of::<K>(), columns: None, changes }
    }

    /// As [`Self::of`], for objects that are already in the store's form.
    pub fn from_packed(resource: ResourceKey, changes: Vec<Change>) -> Self {
        Self { resource, columns: None, changes }
    }

    /// Turns the lists among its changes into further parts of an earlier list.
    pub(crate) fn mark_partial(&mut self) {
        for change in &mut self.changes {
            if let Change::Reset(objects) = change {
                *change = Change::Listed(std::mem::take(objects));
            }
        }
    }

    /// Creates a batch of rows of the server's Table; the columns come with a list.
    pub fn of_table(
        resource: ResourceKey,
        columns: Option<Vec<ColumnDefinition>>,
        changes: Vec<Change<TableRow>>,
    ) -> Self {
        Self {
            resource,
            columns,
            changes: changes.into_iter().map(|change| change.pack(&mut ObjectPacker::default())).collect(),
        }
    }
}

/// The objects that a change affected; `All` after a new list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TouchedObjects {
    /// Any object may differ.
    All,
    /// The usage of all of them was measured again; nothing else differs.
    Usage,
    /// These objects were created, changed or deleted.
    Some(Vec<Uid>),
}

impl TouchedObjects {
    /// Returns whether an object is one of those that were created, changed or deleted.
    pub fn contains(&self, object: &ObjectRef) -> bool {
        matches!((self, &object.uid), (Self::Some(uids), Some(uid)) if uids.contains(uid))
    }
}
