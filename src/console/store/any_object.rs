//! An object of any kind, as a store holds it, and what it is found by.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Serialize;
use serde_json::Value;

use crate::resource::{Kind, ObjectRef, Uid};
use crate::server_table::TableRow;

/// An object of any kind.
pub trait Object: Any + Debug + Send + Sync {
    /// Its metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// All of it that is known, as JSON; costs a copy.
    fn to_json(&self) -> Value;

    /// What it is found by. Unlike its metadata this costs little where the object is packed.
    fn identity(&self) -> Identity {
        Identity::of(self.metadata())
    }

    /// The object itself, as the type it is of; unpacks it.
    fn whole(&self) -> &dyn Any;

    /// Whether it would have to be unpacked.
    fn is_packed(&self) -> bool {
        false
    }

    /// Lets go of what was unpacked.
    fn pack_again(&mut self) {}
}

/// What an object is found by in its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its uid.
    pub uid: Option<Uid>,
    /// Namespace and name, with a slash between; the namespace is empty for cluster-wide kinds.
    pub path: Arc<str>,
    /// The uid of its owner with `controller: true`.
    pub controller: Option<Uid>,
}

impl Identity {
    /// Of an object with this metadata.
    pub(crate) fn of(meta: &ObjectMeta) -> Self {
        let controller = controller(meta);
        Self { uid: meta.uid.as_deref().map(Uid::from), path: path_of(meta), controller }
    }

    /// Its namespace; none for cluster-wide kinds.
    pub(crate) fn namespace(&self) -> Option<&str> {
        let (namespace, _) = self.path.split_once('/')?;
        Some(namespace).filter(|namespace| !namespace.is_empty())
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        self.path.split_once('/').map_or("", |(_, name)| name)
    }

    /// A reference to the object, which is of this kind.
    pub(crate) fn object(&self, kind: Kind) -> ObjectRef {
        let namespace = self.namespace().map(str::to_owned);
        ObjectRef { kind, namespace, name: self.name().to_owned(), uid: self.uid.clone() }
    }
}

/// Namespace and name as [`Identity`] has them.
pub(super) fn path_of(meta: &ObjectMeta) -> Arc<str> {
    let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
    format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default()).into()
}

impl<K: Resource<DynamicType = ()> + Serialize + Debug + Send + Sync + 'static> Object for K {
    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }

    fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
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
        serde_json::to_value(&self.object).unwrap_or_default()
    }

    fn whole(&self) -> &dyn Any {
        self
    }
}

/// The uid of the owner with `controller: true` in an object's metadata.
pub(crate) fn controller(meta: &ObjectMeta) -> Option<Uid> {
    let owners = meta.owner_references.as_ref()?;
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| Uid::from(owner.uid.as_str()))
}
