//! Volumes and claims (VOL-2): binding, provisioning, expansion and protection.
//!
//! Each controller here is one of Kubernetes': `attach` attaches disks to nodes, `binder` binds claims and volumes,
//! `provisioner` creates volumes on demand as an external provisioner would, `expander` expands claims, `protection`
//! delays the deletion of objects in use, `ephemeral` creates the claims of pods with ephemeral volumes. They
//! communicate only through objects.

pub(super) mod attach;
pub(super) mod binder;
pub(super) mod ephemeral;
pub(super) mod expander;
pub(super) mod protection;
pub(super) mod provisioner;
mod request;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use api::{Api, ApiError, DeleteOptions};
use object::{SharedObject, TypedKind};
use reconcile::{ignore_gone, ignore_not_found};

/// Sets an annotation.
fn annotate(meta: &mut ObjectMeta, key: &str, value: &str) {
    meta.annotations.get_or_insert_with(BTreeMap::new).insert(key.into(), value.into());
}

/// Changes metadata and spec of this object; never of a newer object with the same name.
fn modify<T: TypedKind>(
    api: &Api,
    object: &SharedObject<T>,
    mut edit: impl FnMut(&mut T) -> Result<(), ApiError>,
) -> Result<SharedObject<T>, ApiError> {
    api.modify::<T>(&object.key(), |fresh| {
        is_same(object, fresh)?;
        edit(fresh)
    })
}

/// Changes the status of this object; never of a newer object with the same name.
fn modify_status<T: TypedKind>(
    api: &Api,
    object: &SharedObject<T>,
    mut edit: impl FnMut(&mut T),
) -> Result<SharedObject<T>, ApiError> {
    api.modify_status::<T>(&object.key(), |fresh| {
        is_same(object, fresh)?;
        edit(fresh);
        Ok(())
    })
}

fn is_same<T: TypedKind>(object: &SharedObject<T>, fresh: &T) -> Result<(), ApiError> {
    if fresh.metadata().uid.as_deref() == Some(object.uid()) {
        Ok(())
    } else {
        Err(ApiError::not_found(T::kind(), &object.key()))
    }
}

/// Removes a finalizer; ignores a deleted object.
fn drop_finalizer<T: TypedKind>(
    api: &Api,
    object: &SharedObject<T>,
    finalizer: &str,
) -> Result<(), ApiError> {
    ignore_not_found(modify(api, object, |fresh| {
        if let Some(finalizers) = &mut fresh.metadata_mut().finalizers {
            finalizers.retain(|f| f != finalizer);
        }
        Ok(())
    }))
}

/// Adds a finalizer to an object that is not terminating.
fn add_finalizer<T: TypedKind>(api: &Api, object: &SharedObject<T>, finalizer: &str) -> Result<(), ApiError> {
    ignore_not_found(modify(api, object, |fresh| {
        let meta = fresh.metadata_mut();
        if meta.deletion_timestamp.is_none() {
            let finalizers = meta.finalizers.get_or_insert_default();
            if !finalizers.iter().any(|f| f == finalizer) {
                finalizers.push(finalizer.into());
            }
        }
        Ok(())
    }))
}

/// Deletes this object, not another with its name.
fn delete<T: TypedKind>(api: &Api, object: &SharedObject<T>) -> Result<(), ApiError> {
    ignore_gone(api.delete(T::kind(), &object.key(), &DeleteOptions::uid(object.uid())))
}
