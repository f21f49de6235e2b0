//! The steps of a write, in Kubernetes' order: take over what the API keeps → default → own → mutating admission → prepare →
//! validate → validating admission → convert → reserve. What comes out is ready to be stored. Up to its conversion an object
//! of a custom resource is in the version that the request names it in.
//!
//! What mutating admission does is therefore validated, on an update as for a new object, and nothing is reserved for
//! what is refused.

use std::borrow::Cow;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Event;

use super::parts;
use super::reservation::Reservation;
use crate::admission::{Operation, WriteAttributes};
use crate::conversion::OfOwners;
use crate::kinds::{Strategy, date_conditions, ephemeral_containers_errors};
use crate::managed_fields::{self, Convert, Writer};
use crate::validate::depth;
use crate::{Api, ApiError, Part, WriteOptions, admission, authorization, room, rules, warnings};
use object::managed::ManagedFields;
use object::{Object, ServedKind};

/// Who writes without a name.
const NOBODY: &str = "unknown";

/// Who owns what after a write.
#[derive(Clone, Debug, Default)]
pub(super) enum Ownership {
    /// The writer owns what it changed.
    #[default]
    Tracked,
    /// The writer owns what it changed, through a subresource of this name.
    Through(&'static str),
    /// As [`Ownership::Tracked`], and what users have configured for admission is not asked: something is locked meanwhile.
    Unasked,
    /// That is settled: by an apply through the subresource of this name (empty: the object itself).
    Settled(ManagedFields, &'static str),
}

/// A write on its way.
pub(super) struct Write<'a> {
    api: &'a Api,
    part: Part,
    /// The version that is changed; none when the object is new.
    old: Option<&'a Object>,
    options: &'a WriteOptions,
    ownership: Ownership,
    is_name_generated: bool,
}

/// A write that only has to be stored.
pub(super) struct Ready<'a> {
    pub(super) object: Object,
    pub(super) reservation: Reservation<'a>,
    /// What people should hear of once it is stored.
    pub(super) events: Vec<Event>,
}

impl Ready<'_> {
    /// What would have been stored: of a dry run.
    pub(super) fn into_preview(self) -> Object {
        self.object
    }
}

impl<'a> Write<'a> {
    /// Of a new object.
    pub(super) fn create(
        api: &'a Api,
        options: &'a WriteOptions,
        ownership: Ownership,
        is_name_generated: bool,
    ) -> Self {
        Self { api, part: Part::Main, old: None, options, ownership, is_name_generated }
    }

    /// Of a part of one that is there.
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
    pub(super) fn run(&self, mut object: Object) -> Result<Ready<'a>, ApiError> {
        let kinds = self.api.kinds();
        let strategy = kinds.strategy(&object);
        strategy.apply_defaults(&mut object);
        authorization::stamp_requester(self.options.user.as_deref(), &mut object);
        self.own(&mut object)?;
        let asked = self.attributes(&object);
        let events =
            admission::mutate(self.api, self.part, asked.as_ref(), None, &mut object, self.options)?.events;
        // Who asks is settled by nobody else.
        authorization::stamp_requester(self.options.user.as_deref(), &mut object);
        self.api.settle_families(None, &mut object)?;
        strategy.prepare_for_create(&mut object);
        strategy.complete_status(&mut object);
        rules::refuse(&object, strategy.create_errors(&object))?;
        warnings::add_those_of(self.api, &self.options.remarks, &object, None);
        self.finish(object, asked.as_ref(), events)
    }

    /// What admission that users configure is told; none of what the API does by itself.
    fn attributes(&self, object: &Object) -> Option<WriteAttributes<'a>> {
        let subresource = match &self.ownership {
            Ownership::Through(subresource) | Ownership::Settled(_, subresource) => subresource,
            Ownership::Tracked => self.part.subresource()?,
            Ownership::Unasked => return None,
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

    /// Takes the next version of an object through all steps; none when nothing is different from what is stored. The
    /// `stored` object is the one that is changed, as it is stored.
    pub(super) fn run_change(&self, edited: Object, stored: &Object) -> Result<Option<Ready<'a>>, ApiError> {
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
        let asked = self.attributes(&object);
        let mutated =
            admission::mutate(self.api, self.part, asked.as_ref(), Some(old), &mut object, self.options)?;
        if mutated.by_users {
            // It is taken as what a client sends is: the part, and nothing else.
            object = parts::take(self.part, &*strategy, old, object)?;
            if self.part == Part::Main {
                strategy.carry_over(&mut object, old);
            }
        }
        match self.part {
            Part::Main => {
                self.api.settle_families(Some(old), &mut object)?;
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
        count_generation(&*strategy, &mut object, old);
        self.validate(&*strategy, &object, old)?;
        warnings::add_those_of(self.api, &self.options.remarks, &object, Some(old));
        // When somebody came to own the same is no change. What is stored in a version of before is written anew in that of
        // now: so it is brought up to date.
        let is_stored_so =
            self.storage_of(&object).is_none_or(|now| stored.api_version() == now.api_version());
        if is_stored_so
            && object.same_content(old)
            && object.managed_fields().owned_the_same(old.managed_fields())
        {
            if self.options.user.is_some() {
                admission::validate(self.api, self.part, asked.as_ref(), Some(old), &object, self.options)?;
            }
            return Ok(None);
        }
        self.finish(object, asked.as_ref(), mutated.events).map(Some)
    }

    /// The version that the object is to be stored in; none where it stays in the one it has.
    fn storage_of(&self, object: &Object) -> Option<ServedKind> {
        object.custom()?;
        let kinds = self.api.kinds();
        // Actors change what they know of every object, and ask nobody to convert it.
        let is_by_actor = self.old.is_some() && self.options.requested.is_none();
        if is_by_actor && kinds.is_converted(object.kind()) {
            return None;
        }
        kinds.storage(object.kind())
    }

    /// Settles who owns which field. What admission and the API itself fill in afterwards is nobody's.
    fn own(&self, object: &mut Object) -> Result<(), ApiError> {
        let subresource = match &self.ownership {
            Ownership::Settled(owners, _) => {
                object.set_managed_fields(owners.clone());
                return Ok(());
            }
            Ownership::Through(subresource) => Some(*subresource),
            Ownership::Tracked | Ownership::Unasked => self.part.subresource(),
        };
        let Some(subresource) = subresource else {
            let owners = self.old.map(|old| old.managed_fields().clone()).unwrap_or_default();
            object.set_managed_fields(owners);
            return Ok(());
        };
        let writer = Writer {
            manager: match self.options.field_manager.as_deref().unwrap_or(self.api.manager) {
                "" => NOBODY,
                manager => manager,
            },
            subresource,
            now: self.api.server_clock().now().as_second(),
        };
        // Actors ask nobody: what they change is the same in every version.
        let converted = self.options.requested.and_then(|_| OfOwners::of(self.api, object.kind()));
        let convert = converted.as_ref().map(|convert| convert as &dyn Convert);
        let owners = managed_fields::track(&self.api.kinds(), convert, &writer, self.old, object)?;
        object.set_managed_fields(owners);
        Ok(())
    }

    fn validate(&self, strategy: &dyn Strategy, new: &Object, old: &Object) -> Result<(), ApiError> {
        let errors = match self.part {
            Part::Main => strategy.update_errors(new, old),
            Part::Status | Part::Approval => strategy.status_errors(new, old),
            Part::EphemeralContainers => ephemeral_containers_errors(new, old),
            Part::Resize => strategy.resize_errors(new, old),
            // The API's own writes change what they know.
            Part::System => Vec::new(),
        };
        rules::refuse(new, errors)
    }

    /// What comes once an object is valid.
    fn finish(
        &self,
        mut object: Object,
        asked: Option<&WriteAttributes<'_>>,
        events: Vec<Event>,
    ) -> Result<Ready<'a>, ApiError> {
        let user = self.options.user.as_deref();
        authorization::check_escalation(self.api, user, self.old, &object)?;
        authorization::check_parameters(self.api, user, self.old, &object)?;
        authorization::restrict_node(self.api, user, self.part, self.old, &object)?;
        authorization::check_certificate(self.api, user, self.part, self.old, &object)?;
        admission::validate(self.api, self.part, asked, self.old, &object, self.options)?;
        if let Some(storage) = self.storage_of(&object)
            && let Cow::Owned(converted) = self.api.convert_one(&object, storage)?
        {
            object = converted;
        }
        depth::check_object(&object)?;
        if rules::check_size(&object, self.old).is_err() {
            // As Kubernetes: better nobody owns anything than that it cannot be stored.
            object.set_managed_fields(ManagedFields::default());
            rules::check_size(&object, self.old)?;
        }
        room::check(self.api, self.part, &object, self.old)?;
        let reservation =
            Reservation::take(self.api, self.part, self.old, &mut object, self.options.dry_run)?;
        Ok(Ready { object, reservation, events })
    }
}

/// Counts a change of what the object asks for.
fn count_generation(strategy: &dyn Strategy, object: &mut Object, old: &Object) {
    if old.kind().info().counts_generations && !strategy.same_spec(object, old) {
        let generation = old.meta().generation.unwrap_or(0);
        object.meta_mut().generation = Some(generation + 1);
    }
}
