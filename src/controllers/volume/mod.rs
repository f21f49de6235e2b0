//! Volumes and claims (VOL-2): who gets which, who makes them, how they grow and when they may go.
//!
//! Each controller here is one of Kubernetes': `attach` brings disks to nodes, `binder` brings claims and volumes together, `provisioner` makes
//! volumes on demand as an external provisioner would, `expander` lets claims grow, `protection` keeps what is in
//! use, `ephemeral` makes the claims of pods that bring their own. They speak through the objects alone.

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
use object::{Shared, Typed};
use reconcile::{ignore_gone, ignore_not_found};

/// Sets an annotation.
fn annotate(meta: &mut ObjectMeta, key: &str, value: &str) {
    meta.annotations.get_or_insert_with(BTreeMap::new).insert(key.into(), value.into());
}

/// Changes metadata and spec of just this object, not of another that has its name by now.
fn modify<T: Typed>(
    api: &Api,
    object: &Shared<T>,
    mut edit: impl FnMut(&mut T) -> Result<(), ApiError>,
) -> Result<Shared<T>, ApiError> {
    api.modify::<T>(&object.key(), |fresh| {
        is_same(object, fresh)?;
        edit(fresh)
    })
}

/// The same of its status.
fn modify_status<T: Typed>(
    api: &Api,
    object: &Shared<T>,
    mut edit: impl FnMut(&mut T),
) -> Result<Shared<T>, ApiError> {
    api.modify_status::<T>(&object.key(), |fresh| {
        is_same(object, fresh)?;
        edit(fresh);
        Ok(())
    })
}

fn is_same<T: Typed>(object: &Shared<T>, fresh: &T) -> Result<(), ApiError> {
    if fresh.metadata().uid.as_deref() == Some(object.uid()) {
        Ok(())
    } else {
        Err(ApiError::not_found(T::kind(), &object.key()))
    }
}

/// Takes a finalizer off an object; nothing happens to one that is gone.
fn drop_finalizer<T: Typed>(api: &Api, object: &Shared<T>, finalizer: &str) -> Result<(), ApiError> {
    ignore_not_found(modify(api, object, |fresh| {
        if let Some(finalizers) = &mut fresh.metadata_mut().finalizers {
            finalizers.retain(|f| f != finalizer);
        }
        Ok(())
    }))
}

/// Puts a finalizer on an object that is not going.
fn add_finalizer<T: Typed>(api: &Api, object: &Shared<T>, finalizer: &str) -> Result<(), ApiError> {
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

/// Deletes just this object.
fn delete<T: Typed>(api: &Api, object: &Shared<T>) -> Result<(), ApiError> {
    ignore_gone(api.delete(T::kind(), &object.key(), &DeleteOptions::uid(object.uid())))
}
