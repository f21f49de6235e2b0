//! Writes that have an object's uid as a precondition: they never reach another object with its name.

use api::{Api, ApiError, DeleteOptions};
use object::{SharedObject, TypedKind, finalizers};

use super::outcome::{ignore_gone, ignore_not_found};

/// Changes metadata and spec of this object; fails with 404 if it was deleted or replaced.
pub fn modify<T: TypedKind>(
    api: &Api,
    object: &SharedObject<T>,
    mut edit: impl FnMut(&mut T) -> Result<(), ApiError>,
) -> Result<SharedObject<T>, ApiError> {
    api.modify::<T>(&object.key(), |fresh| {
        is_same(object, fresh)?;
        edit(fresh)
    })
}

/// Changes the status of this object; fails with 404 if it was deleted or replaced.
pub fn modify_status<T: TypedKind>(
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

/// Adds a finalizer to an object that is not terminating; ignores a deleted object.
pub fn add_finalizer<T: TypedKind>(
    api: &Api,
    object: &SharedObject<T>,
    finalizer: &str,
) -> Result<(), ApiError> {
    ignore_not_found(modify(api, object, |fresh| {
        let meta = fresh.metadata_mut();
        if meta.deletion_timestamp.is_none() {
            finalizers::add_finalizer(meta, finalizer);
        }
        Ok(())
    }))
}

/// Removes a finalizer; ignores a deleted object.
pub fn remove_finalizer<T: TypedKind>(
    api: &Api,
    object: &SharedObject<T>,
    finalizer: &str,
) -> Result<(), ApiError> {
    ignore_not_found(modify(api, object, |fresh| {
        finalizers::remove_finalizer(fresh.metadata_mut(), finalizer);
        Ok(())
    }))
}

/// Deletes this object.
pub fn delete<T: TypedKind>(api: &Api, object: &SharedObject<T>) -> Result<(), ApiError> {
    ignore_gone(api.delete(T::kind(), &object.key(), &DeleteOptions::uid(object.uid())))
}

/// Deletes this object, unless it has changed since it was read.
pub fn delete_unchanged<T: TypedKind>(api: &Api, object: &SharedObject<T>) -> Result<(), ApiError> {
    let version = Some(object.object().revision());
    let options = DeleteOptions { resource_version: version, ..DeleteOptions::uid(object.uid()) };
    ignore_gone(api.delete(T::kind(), &object.key(), &options))
}
