//! Stored objects that are known to hold one type.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use super::{Key, Object, Revision, TypedKind};

/// A stored object known to be a `T`; cloning shares it.
pub struct SharedObject<T> {
    object: Arc<Object>,
    of: PhantomData<fn() -> T>,
}

impl<T: TypedKind> SharedObject<T> {
    /// Returns the object if it is a `T`: of its kind, and, for a custom resource, with fields of its types.
    pub fn from_object(object: &Arc<Object>) -> Option<Self> {
        object.get::<T>().map(|_| Self { object: object.clone(), of: PhantomData })
    }

    /// Wraps a value that was never stored, for tests and previews.
    pub fn from_value(value: T) -> Self {
        Self { object: Arc::new(Object::new(value)), of: PhantomData }
    }

    /// Returns the untyped object.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// Returns the key within the kind.
    pub fn key(&self) -> Key {
        self.object.key()
    }

    /// Returns `metadata.name`.
    pub fn name(&self) -> &str {
        self.object.name()
    }

    /// Returns `metadata.namespace`; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.object.namespace()
    }

    /// Returns `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.object.uid()
    }

    /// Returns `metadata.resourceVersion`.
    pub fn revision(&self) -> Revision {
        self.object.revision()
    }
}

impl<T> Clone for SharedObject<T> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), of: PhantomData }
    }
}

impl<T: TypedKind> Deref for SharedObject<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.object.get().expect("a Shared<T> is only made of an object of type T")
    }
}

impl<T: TypedKind> fmt::Debug for SharedObject<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(f)
    }
}
