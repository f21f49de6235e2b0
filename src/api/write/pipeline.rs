//! The steps of a write, in Kubernetes' order: carry over the API's own fields → default → own → mutating
//! admission → prepare → validate → validating admission → convert → reserve. The result is ready to be
//! stored. Up to its conversion a custom object is in the version of the request.
//!
//! Changes by mutating admission are therefore validated, on an update as for a new object, and refused
//! writes reserve nothing.

use std::borrow::Cow;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Event;

use super::parts;
use super::reservation::Reservation;
use crate::admission::{Operation, WriteAttributes};
use crate::conversion::OwnerConverter;
use crate::managed_fields::{self, Converter, Writer};
use crate::{
    Api, ApiError, Part, WriteOptions, admission, authorization, object_checks, store_limits, warnings,
};
use apimachinery::validate::depth;
use kinds::{Strategy, date_conditions, ephemeral_containers_errors, resize_errors};
use object::managed::ManagedFields;
use object::{Object, ServedKind};

/// The field manager of a write without a name.
const UNKNOWN_MANAGER: &str = "unknown";

/// The treatment of managed fields by a write.
#[derive(Clone, Debug, Default)]
pub(super) enum Ownership {
    /// The writer owns what it changed.
    #[default]
    Tracked,
    /// The writer owns what it changed, through a subresource of this name.
    Through(&'static str),
    /// As [`Ownership::Tracked`], but without the admission that users configure, because the caller holds a
    /// lock.
    TrackedWithoutWebhooks,
    /// Computed by the caller: an apply through the subresource of this name (empty: the object itself).
    Applied(ManagedFields, &'static str),
}

/// A write in progress.
pub(super) struct PendingWrite<'a> {
    api: &'a Api,
    part: Part,
    /// The current version; `None` for a new object.
    old: Option<&'a Object>,
    options: &'a WriteOptions,
    ownership: Ownership,
    is_name_generated: bool,
}

/// A write that only has to be stored.
pub(super) struct PreparedWrite<'a> {
    pub(super) object: Object,
    pub(super) reservation: Reservation<'a>,
    /// Events to record once the object is stored.
    pub(super) events: Vec<Event>,
}

impl PreparedWrite<'_> {
    /// Returns the object that would have been stored: for a dry run.
    pub(super) fn into_preview(self) -> Object {
        self.object
    }
}

impl<'a> PendingWrite<'a> {
    /// Creates an object.
    pub(super) fn create(
        api: &'a Api,
        options: &'a WriteOptions,
        ownership: Ownership,
        is_name_generated: bool,
    ) -> Self {
        Self { api, part: Part::Main, old: None, options, ownership, is_name_generated }
    }

    /// Changes a part of an existing object.
    pub(super) fn change(
        api: &'a Api,
        part: Part,
        old: &'a Object,
        options: &'a WriteOptions,
        ownership: Ownership,
    ) -> Self {
        Self { api, part, old: Some(old), options, ownership, is_name_generated: false }
    }

    /// Takes a new object through all steps.
    pub(super) fn run(&self, mut object: Object) -> Result<PreparedWrite<'a>, ApiError> {
        let kinds = self.api.kinds();
        let strategy = kinds.strategy(&object);
        strategy.apply_defaults(&mut object);
        authorization::stamp_requester(self.options.user.as_deref(), &mut object);
        self.own(&mut object)?;
        let attributes = self.attributes(&object);
        let events =
            admission::mutate(self.api, self.part, attributes.as_ref(), None, &mut object, self.options)?
                .events;
        // Stamped again, because mutating admission must not change the requester.
        authorization::stamp_requester(self.options.user.as_deref(), &mut object);
        self.api.resolve_families(None, &mut object)?;
        strategy.prepare_for_create(&mut object);
        strategy.complete_status(&mut object);
        object_checks::refuse(&object, strategy.create_errors(&object))?;
        warnings::add_those_of(self.api, &self.options.warnings, &object, None);
        self.finish(object, attributes.as_ref(), events)
    }

    /// Returns the attributes for the admission that users configure; `None` for the API's own writes.
    fn attributes(&self, object: &Object) -> Option<WriteAttributes<'a>> {
        let subresource = match &self.ownership {
            Ownership::Through(subresource) | Ownership::Applied(_, subresource) => subresource,
            Ownership::Tracked => self.part.subresource()?,
            Ownership::TrackedWithoutWebhooks => return None,
        };
        Some(WriteAttributes {
            operation: if self.old.is_some() { Operation::Update } else { Operation::Create },
            resource: match self.options.requested {
                Some(requested) => requested,
                None if object.custom().is_none() => object.kind().into(),
                None => self.api.kinds().served_as(object),
            },
            subresource,
            old: self.old,
            is_name_generated: self.is_name_generated,
            options: self.options,
            requester: self.api.requester(self.options.user.as_deref()),
        })
    }

    /// Runs the next version of an object through all steps; `None` if it equals the stored one. `stored` is
    /// the current object as stored.
    pub(super) fn run_change(
        &self,
        edited: Object,
        stored: &Object,
    ) -> Result<Option<PreparedWrite<'a>>, ApiError> {
        let Some(old) = self.old else { return self.run(edited).map(Some) };
        let kinds = self.api.kinds();
        let strategy = kinds.strategy(&edited);
        let mut object = parts::take(self.part, &*strategy, old, edited)?;
        if self.part == Part::Main {
            strategy.carry_over(&mut object, old);
        }
        if matches!(self.part, Part::Main | Part::EphemeralContainers | Part::Resize) {
            strategy.apply_defaults(&mut object);
        }
        self.own(&mut object)?;
        let attributes = self.attributes(&object);
        let mutated = admission::mutate(
            self.api,
            self.part,
            attributes.as_ref(),
            Some(old),
            &mut object,
            self.options,
        )?;
        if mutated.is_changed_by_users {
            // As with a client's edit, only the written part of the result of admission is taken.
            object = parts::take(self.part, &*strategy, old, object)?;
            if self.part == Part::Main {
                strategy.carry_over(&mut object, old);
            }
        }
        match self.part {
            Part::Main => {
                self.api.resolve_families(Some(old), &mut object)?;
                strategy.prepare_for_update(&mut object, old);
            }
            Part::Status | Part::Approval => {
                strategy.complete_status(&mut object);
                if let (Some(request), Some(old)) = (object.get_mut::<CertificateSigningRequest>(), old.get())
                {
                    date_conditions(request, old, &self.api.server_clock().time());
                }
            }
            _ => {}
        }
        if self.part != Part::System {
            count_generation(&*strategy, &mut object, old);
        }
        self.validate(&*strategy, &object, old)?;
        warnings::add_those_of(self.api, &self.options.warnings, &object, Some(old));
        // A change of field managers alone, over the same fields, is no change. An object in an earlier
        // storage version is rewritten, which migrates it to the present one.
        let is_stored_so =
            self.storage_of(&object).is_none_or(|now| stored.api_version() == now.api_version());
        if is_stored_so
            && object.same_content(old)
            && object.managed_fields().owned_the_same(old.managed_fields())
        {
            if self.options.user.is_some() {
                admission::validate(
                    self.api,
                    self.part,
                    attributes.as_ref(),
                    Some(old),
                    &object,
                    self.options,
                )?;
            }
            return Ok(None);
        }
        self.finish(object, attributes.as_ref(), mutated.events).map(Some)
    }

    /// Returns the version to store the object in; `None` if it stays in its own.
    fn storage_of(&self, object: &Object) -> Option<ServedKind> {
        object.custom()?;
        let kinds = self.api.kinds();
        // Actors change only fields that every version has, and need no conversion.
        let is_by_actor = self.old.is_some() && self.options.requested.is_none();
        if is_by_actor && kinds.is_converted(object.kind()) {
            return None;
        }
        kinds.storage(object.kind())
    }

    /// Updates the managed fields. Fields that admission and the API itself set afterwards have no owner.
    fn own(&self, object: &mut Object) -> Result<(), ApiError> {
        let subresource = match &self.ownership {
            Ownership::Applied(owners, _) => {
                object.set_managed_fields(owners.clone());
                return Ok(());
            }
            Ownership::Through(subresource) => Some(*subresource),
            Ownership::Tracked | Ownership::TrackedWithoutWebhooks => self.part.subresource(),
        };
        let Some(subresource) = subresource else {
            let owners = self.old.map(|old| old.managed_fields().clone()).unwrap_or_default();
            object.set_managed_fields(owners);
            return Ok(());
        };
        let writer = Writer {
            manager: match self.options.field_manager.as_deref().unwrap_or(self.api.manager) {
                "" => UNKNOWN_MANAGER,
                manager => manager,
            },
            subresource,
            now: self.api.server_clock().now().as_second(),
        };
        // Actors need no conversion: the fields they change are the same in every version.
        let converted = self.options.requested.and_then(|_| OwnerConverter::of(self.api, object.kind()));
        let convert = converted.as_ref().map(|convert| convert as &dyn Converter);
        let owners = managed_fields::track(&self.api.kinds(), convert, &writer, self.old, object)?;
        object.set_managed_fields(owners);
        Ok(())
    }

    fn validate(&self, strategy: &dyn Strategy, new: &Object, old: &Object) -> Result<(), ApiError> {
        let errors = match self.part {
            Part::Main => strategy.update_errors(new, old),
            Part::Status | Part::Approval => strategy.status_errors(new, old),
            Part::EphemeralContainers => ephemeral_containers_errors(new, old),
            Part::Resize => resize_errors(new, old),
            // The API's own writes are valid by construction.
            Part::System => Vec::new(),
        };
        object_checks::refuse(new, errors)
    }

    /// Runs the steps after validation.
    fn finish(
        &self,
        mut object: Object,
        attributes: Option<&WriteAttributes<'_>>,
        events: Vec<Event>,
    ) -> Result<PreparedWrite<'a>, ApiError> {
        let user = self.options.user.as_deref();
        authorization::check_escalation(self.api, user, self.old, &object)?;
        authorization::check_parameters(self.api, user, self.old, &object)?;
        authorization::restrict_node(self.api, user, self.part, self.old, &object)?;
        authorization::check_certificate(self.api, user, self.part, self.old, &object)?;
        admission::validate(self.api, self.part, attributes, self.old, &object, self.options)?;
        if let Some(storage) = self.storage_of(&object)
            && let Cow::Owned(converted) = self.api.convert_one(&object, storage)?
        {
            object = converted;
        }
        depth::check_object(&object)?;
        if object_checks::check_size(&object, self.old).is_err() {
            // As in Kubernetes: losing all managed fields is better than failing to store the object.
            object.set_managed_fields(ManagedFields::default());
            object_checks::check_size(&object, self.old)?;
        }
        store_limits::check(self.api, self.part, &object, self.old)?;
        let reservation =
            Reservation::take(self.api, self.part, self.old, &mut object, self.options.dry_run)?;
        Ok(PreparedWrite { object, reservation, events })
    }
}

/// Increments the generation if the spec changed. A step of the system (binding a pod) keeps it, as in Kubernetes.
fn count_generation(strategy: &dyn Strategy, object: &mut Object, old: &Object) {
    if old.kind().info().counts_generations && !strategy.same_spec(object, old) {
        let generation = old.meta().generation.unwrap_or(0);
        object.meta_mut().generation = Some(generation + 1);
    }
}
