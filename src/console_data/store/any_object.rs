//! An object of any kind as a store holds it, and its keys.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde_json::Value;

use crate::resource::{Kind, ObjectRef, Uid};
use crate::server_table::TableRow;
use object::TypedKind;

/// An object of any kind.
pub trait Object: Any + Debug + Send + Sync {
    /// Returns its metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// Returns all that is known of the object, as a copy in JSON.
    fn to_json(&self) -> Value;

    /// Returns the object's keys. Unlike [`Self::metadata`], this does not unpack a packed object.
    fn identity(&self) -> Identity {
        Identity::of(self.metadata())
    }

    /// Returns the object as its own type; unpacks it.
    fn whole(&self) -> &dyn Any;

    /// Reports whether reading the object requires unpacking.
    fn is_packed(&self) -> bool {
        false
    }

    /// Drops the unpacked form.
    fn drop_unpacked(&mut self) {}
}

/// The keys of an object in its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The uid of the object.
    pub uid: Option<Uid>,
    /// Namespace and name, separated by a slash; the namespace is empty for cluster-wide kinds.
    pub path: Arc<str>,
    /// The uid of the owner with `controller: true`.
    pub controller: Option<Uid>,
}

impl Identity {
    /// Returns the keys for this metadata.
    pub fn of(meta: &ObjectMeta) -> Self {
        let controller = controller(meta);
        Self { uid: meta.uid.as_deref().map(Uid::from), path: path_of(meta), controller }
    }

    /// Returns the namespace; `None` for cluster-wide kinds.
    pub fn namespace(&self) -> Option<&str> {
        let (namespace, _) = self.path.split_once('/')?;
        Some(namespace).filter(|namespace| !namespace.is_empty())
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.path.split_once('/').map_or("", |(_, name)| name)
    }

    /// Returns a reference to the object, given its kind.
    pub fn object(&self, kind: Kind) -> ObjectRef {
        let namespace = self.namespace().map(str::to_owned);
        ObjectRef { kind, namespace, name: self.name().to_owned(), uid: self.uid.clone() }
    }
}

/// Returns namespace and name in the format of [`Identity`].
pub(super) fn path_of(meta: &ObjectMeta) -> Arc<str> {
    let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
    format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default()).into()
}

impl<K: Resource<DynamicType = ()> + TypedKind> Object for K {
    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }

    fn to_json(&self) -> Value {
        self.to_value()
    }

    fn whole(&self) -> &dyn Any {
        self
    }
}

impl Object for TableRow {
    fn metadata(&self) -> &ObjectMeta {
        &self.object.metadata
    }

    fn to_json(&self) -> Value {
        object::json_of(&self.object)
    }

    fn whole(&self) -> &dyn Any {
        self
    }
}

/// Returns the uid of the owner with `controller: true`.
pub(crate) fn controller(meta: &ObjectMeta) -> Option<Uid> {
    let owners = meta.owner_references.as_ref()?;
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| Uid::from(owner.uid.as_str()))
}
