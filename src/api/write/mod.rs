//! Creating and changing objects: the one path that every write takes.
//!
//! A change is a function from the current version to the next; it is retried if another write was faster,
//! unless the caller named the version it is based on. A change without effect is not written.
//!
//! The steps of a write and their order are in [`pipeline`]: create, update, patch, scale, bind, evict,
//! ephemeral containers and resize all use them; [`Part`] defines which fields each may touch.

mod apply;
mod parts;
mod pipeline;
mod reservation;
#[cfg(test)]
mod status_tests;

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Event;

pub use self::apply::ApplyResult;
use self::pipeline::{Ownership, PendingWrite};
use super::deletion::is_over;
use super::generated_name::generated_name;
use super::write_refusal::write_refusal;
use super::{Api, ApiError, Cause, Part, WriteOptions};
use base::mistakes::Mistake;
use base::quote::quote;
use object::{Key, Kind, Object, Revision, ServedKind, SharedObject, TypedKind};
use store::WriteError;

/// The number of attempts when other writes keep being faster.
const TRIES: usize = 64;

/// Changes an object, and says who owns the changed fields.
type OwnedEdit<'a> = dyn FnMut(&Object) -> Result<(Object, Ownership), ApiError> + 'a;

impl Api {
    /// Stores a new object and returns it as stored.
    pub fn create(&self, object: Object, options: &WriteOptions) -> Result<Arc<Object>, ApiError> {
        self.create_owned(object, options, &Ownership::Tracked)
    }

    /// Creates the object of an update that found none.
    pub fn create_on_update(
        &self,
        served: ServedKind,
        object: Object,
        options: &WriteOptions,
    ) -> Result<Arc<Object>, ApiError> {
        self.check_may_create(served, &object.key(), options)?;
        self.create(object, options)
    }

    fn create_owned(
        &self,
        mut object: Object,
        options: &WriteOptions,
        ownership: &Ownership,
    ) -> Result<Arc<Object>, ApiError> {
        let kind = object.kind();
        self.stamp_new(&mut object)?;
        let prefix = object.meta().generate_name.clone().filter(|_| object.name().is_empty());
        if let Some(prefix) = &prefix {
            self.name(&mut object, prefix);
        }
        let write = PendingWrite::create(self, options, ownership.clone(), prefix.is_some());
        let ready = write.run(object)?;
        if options.dry_run {
            let preview = ready.into_preview();
            return match self.store().get(kind, &preview.key()) {
                Some(_) => Err(ApiError::AlreadyExists { kind, name: preview.name().into() }),
                None => Ok(Arc::new(preview)),
            };
        }
        let name = ready.object.name().to_string();
        let stored = self.store().create(ready.object).map_err(|error| write_refusal(error, kind, &name))?;
        ready.reservation.commit(&stored);
        self.object_stored(&stored);
        self.record_events(ready.events);
        Ok(stored)
    }

    /// Sets a generated name that is free. The name is not reserved: with 27 million names, another write is
    /// unlikely to take the same one meanwhile, and a retry would need a copy of each object.
    fn name(&self, object: &mut Object, prefix: &str) {
        for _ in 0..TRIES {
            object.meta_mut().name = Some(generated_name(prefix));
            if self.store().get(object.kind(), &object.key()).is_none() {
                return;
            }
        }
    }

    /// Stores a new `T` and returns it as stored.
    pub fn create_as<T: TypedKind>(&self, value: T) -> Result<SharedObject<T>, ApiError> {
        let stored = self.create(Object::new(value), &WriteOptions::default())?;
        typed(&stored)
    }

    /// Stores the events of admission for an object that is stored now.
    fn record_events(&self, events: Vec<Event>) {
        for event in events {
            if let Err(error) = self.create_as(event) {
                tracing::warn!("cannot store an event: {error}");
            }
        }
    }

    /// Sets the fields that the API gives a new object.
    fn stamp_new(&self, object: &mut Object) -> Result<(), ApiError> {
        let kind = object.kind();
        if object.meta().resource_version.as_ref().is_some_and(|v| !v.is_empty()) {
            return Err(ApiError::BadRequest(
                "resourceVersion should not be set on objects to be created".into(),
            ));
        }
        let kinds = self.kinds();
        if kinds.is_terminating(kind) {
            let message = "create not allowed while custom resource definition is terminating";
            return Err(ApiError::MethodNotAllowed(message.into()));
        }
        let strategy = kinds.strategy(object);
        if strategy.has_status() && !strategy.keeps_status_at_creation() {
            object.clear_status();
        }
        let now = self.server_clock().time();
        let meta = object.meta_mut();
        if kind.namespaced() {
            if meta.namespace.as_ref().is_none_or(String::is_empty) {
                meta.namespace = Some("default".into());
            }
        } else {
            meta.namespace = None;
        }
        meta.uid = Some(base::random::uuid());
        meta.creation_timestamp = Some(now);
        meta.resource_version = None;
        meta.self_link = None;
        meta.deletion_timestamp = None;
        meta.deletion_grace_period_seconds = None;
        meta.generation = kind.info().counts_generations.then_some(1);
        Ok(())
    }

    /// Replaces a part of the object with the same key; if it has a resourceVersion, that must be the current
    /// one.
    pub fn update(
        &self,
        object: &Object,
        part: Part,
        options: &WriteOptions,
    ) -> Result<Arc<Object>, ApiError> {
        self.change(object.kind(), &object.key(), part, options, |_| Ok(object.clone()))
    }

    /// Changes metadata and spec of the `T` with this key; written only if something changed.
    pub fn modify<T: TypedKind>(
        &self,
        key: &Key,
        edit: impl FnMut(&mut T) -> Result<(), ApiError>,
    ) -> Result<SharedObject<T>, ApiError> {
        self.modify_part(key, Part::Main, edit)
    }

    /// Changes the status of the `T` with this key; written only if something changed.
    pub fn modify_status<T: TypedKind>(
        &self,
        key: &Key,
        edit: impl FnMut(&mut T) -> Result<(), ApiError>,
    ) -> Result<SharedObject<T>, ApiError> {
        self.modify_part(key, Part::Status, edit)
    }

    /// As [`Api::modify_status`], for callers that hold a lock: webhooks are not called, because others would
    /// wait for the lock meanwhile.
    pub(super) fn modify_status_without_webhooks<T: TypedKind>(
        &self,
        key: &Key,
        edit: impl FnMut(&mut T) -> Result<(), ApiError>,
    ) -> Result<SharedObject<T>, ApiError> {
        self.modify_owned(
            key,
            Part::Status,
            &WriteOptions::default(),
            &Ownership::TrackedWithoutWebhooks,
            edit,
        )
    }

    pub(super) fn modify_part<T: TypedKind>(
        &self,
        key: &Key,
        part: Part,
        edit: impl FnMut(&mut T) -> Result<(), ApiError>,
    ) -> Result<SharedObject<T>, ApiError> {
        self.modify_owned(key, part, &WriteOptions::default(), &Ownership::Tracked, edit)
    }

    /// As [`Api::modify_part`], for a user: a dry run returns the result without storing it.
    pub(super) fn modify_part_by<T: TypedKind>(
        &self,
        key: &Key,
        part: Part,
        options: &WriteOptions,
        edit: impl FnMut(&mut T) -> Result<(), ApiError>,
    ) -> Result<SharedObject<T>, ApiError> {
        self.modify_owned(key, part, options, &Ownership::Tracked, edit)
    }

    fn modify_owned<T: TypedKind>(
        &self,
        key: &Key,
        part: Part,
        options: &WriteOptions,
        ownership: &Ownership,
        mut edit: impl FnMut(&mut T) -> Result<(), ApiError>,
    ) -> Result<SharedObject<T>, ApiError> {
        let stored = self.change_owned(T::kind(), key, part, options, &mut |current| {
            let mut next = current.clone();
            let edited = next.change::<T, _>(&mut edit);
            edited.unwrap_or_else(|| Err(ApiError::not_found(T::kind(), key)))?;
            Ok((next, ownership.clone()))
        })?;
        typed(&stored)
    }

    /// Changes a part of an object: `edit` turns the current version into the next.
    pub fn change(
        &self,
        kind: Kind,
        key: &Key,
        part: Part,
        options: &WriteOptions,
        mut edit: impl FnMut(&Object) -> Result<Object, ApiError>,
    ) -> Result<Arc<Object>, ApiError> {
        self.change_owned(kind, key, part, options, &mut |current| Ok((edit(current)?, Ownership::Tracked)))
    }

    /// As [`Api::change`], with managed fields under this subresource (empty: the object itself) for any
    /// part: changed fields get an owner, and removed fields lose theirs.
    pub fn change_through(
        &self,
        subresource: &'static str,
        kind: Kind,
        key: &Key,
        part: Part,
        options: &WriteOptions,
        mut edit: impl FnMut(&Object) -> Result<Object, ApiError>,
    ) -> Result<Arc<Object>, ApiError> {
        self.change_owned(kind, key, part, options, &mut |current| {
            Ok((edit(current)?, Ownership::Through(subresource)))
        })
    }

    /// Returns a stored object in the version in which a request names its kind.
    pub(crate) fn as_requested(
        &self,
        stored: &Arc<Object>,
        options: &WriteOptions,
    ) -> Result<Arc<Object>, ApiError> {
        let Some(served) = options.requested.filter(|_| stored.custom().is_some()) else {
            return Ok(stored.clone());
        };
        match self.convert_one(stored, served)? {
            Cow::Borrowed(_) => Ok(stored.clone()),
            Cow::Owned(converted) => Ok(Arc::new(converted)),
        }
    }

    fn change_owned(
        &self,
        kind: Kind,
        key: &Key,
        part: Part,
        options: &WriteOptions,
        edit: &mut OwnedEdit<'_>,
    ) -> Result<Arc<Object>, ApiError> {
        for _ in 0..TRIES {
            let stored = self.get(kind, key)?;
            let current = self.as_requested(&stored, options)?;
            let (edited, ownership) = edit(&current)?;
            let based_on = based_on(&edited)?;
            let is_other = based_on != Revision(0) && based_on != current.revision();
            if is_other && !Mistake::LostUpdate.is_enabled() {
                return Err(ApiError::modified(kind, &key.name));
            }
            let write = PendingWrite::change(self, part, &current, options, ownership);
            let ready = match write.run_change(edited, &stored)? {
                None => return Ok(stored),
                Some(ready) if options.dry_run => return Ok(Arc::new(ready.into_preview())),
                Some(ready) => ready,
            };
            // If nothing delays the object's deletion any more, this write removes it: with a second write, a
            // crash in between would leave the object behind.
            let is_last = is_over(&ready.object);
            let written = if is_last {
                self.store().remove_as(ready.object, current.revision())
            } else {
                self.store().replace(ready.object, current.revision())
            };
            match written {
                Ok(stored) => {
                    ready.reservation.commit(&stored);
                    if is_last {
                        self.release_unused_addresses(&stored, None);
                    }
                    self.object_stored(&stored);
                    return Ok(stored);
                }
                // The edit named no version, or the version that it was given, so it is retried.
                Err(WriteError::Conflict(_)) => {}
                Err(error) => return Err(write_refusal(error, kind, &key.name)),
            }
        }
        Err(ApiError::modified(kind, &key.name))
    }
}

/// Returns the version that an edited object is based on; 0 if it names none. An invalid version is refused:
/// treated as absent, it would overwrite other writes.
fn based_on(edited: &Object) -> Result<Revision, ApiError> {
    let text = edited.meta().resource_version.as_deref().unwrap_or_default();
    if text.is_empty() {
        return Ok(Revision(0));
    }
    Revision::parse(text).ok_or_else(|| ApiError::Invalid {
        kind: edited.kind(),
        name: edited.name().into(),
        causes: vec![Cause {
            reason: "FieldValueInvalid".into(),
            message: format!(
                "Invalid value: {0}: strconv.ParseUint: parsing {0}: invalid syntax",
                quote(text)
            ),
            field: "metadata.resourceVersion".into(),
        }],
    })
}

/// Returns a written object as its type. A webhook may have changed a custom resource so that it does not fit.
fn typed<T: TypedKind>(stored: &Arc<Object>) -> Result<SharedObject<T>, ApiError> {
    SharedObject::from_object(stored).ok_or_else(|| {
        ApiError::Internal(format!("{} {} does not fit its Rust type", stored.kind(), stored.key()))
    })
}
