//! Creating and changing objects: the one path every write takes.
//!
//! A change is a function from the current version to the next; it is tried again when somebody else was
//! faster, unless the caller named the version it is based on. A change that changes nothing writes nothing.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::core::v1::{Container, Pod};
use rand::Rng;

use super::{Api, ApiError, Cause, WriteOptions, admission, room, rules};
use crate::base::quote::quote;
use crate::object::{Body, Key, Kind, Object, Revision, Shared, Typed};
use crate::store::WriteError;

/// Which part of an object a change may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything but the status.
    Main,
    /// The status (and metadata).
    Status,
    /// A pod's ephemeral containers, by adding some.
    EphemeralContainers,
    /// What a pod's containers ask for and may use.
    Resize,
    /// What the API itself changes: binding, finalizers, deletion marks.
    System,
}

/// How often a change is tried when others keep being faster.
const TRIES: usize = 64;
/// Letters of generated names: no vowels, no look-alikes.
const NAME_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

impl Api {
    /// Stores a new object and returns it as stored.
    pub fn create(&self, mut object: Object, options: &WriteOptions) -> Result<Arc<Object>, ApiError> {
        let kind = object.kind();
        self.prepare_create(&mut object)?;
        let prefix = object.meta().generate_name.clone().filter(|_| object.name().is_empty());
        let mut tries = 0;
        loop {
            let mut candidate = object.clone();
            if let Some(prefix) = &prefix {
                candidate.meta_mut().name = Some(generated_name(prefix));
            }
            rules::apply_defaults(&mut candidate);
            rules::number_template(&mut candidate, None);
            let events = admission::admit_create(self, &mut candidate)?;
            rules::give_identity(&mut candidate);
            rules::first_status(&mut candidate);
            rules::complete_status(&mut candidate);
            rules::check_create(&candidate)?;
            rules::check_size(&candidate, None)?;
            room::check(self, Part::Main, &candidate, None)?;
            let charge = admission::charge(self, Part::Main, None, &candidate, options.dry_run)?;
            let taken = self.take_addresses(None, &mut candidate, options.dry_run)?;
            if options.dry_run {
                return match self.store().get(kind, &candidate.key()) {
                    Some(_) => Err(ApiError::AlreadyExists { kind, name: candidate.name().into() }),
                    None => Ok(Arc::new(candidate)),
                };
            }
            let name = candidate.name().to_string();
            match self.store().create(candidate) {
                Ok(stored) => {
                    charge.keep();
                    self.tell(events);
                    return Ok(stored);
                }
                Err(error) => {
                    self.give_back(&taken);
                    tries += 1;
                    if error != WriteError::Exists || prefix.is_none() || tries >= TRIES {
                        return Err(ApiError::from_write(error, kind, &name));
                    }
                }
            }
        }
    }

    /// Stores a new `T` and returns it as stored.
    pub fn create_as<T: Typed>(&self, value: T) -> Result<Shared<T>, ApiError> {
        let stored = self.create(Object::new(value), &WriteOptions::default())?;
        Ok(Shared::from_object(&stored).expect("what was created keeps its type"))
    }

    /// What admission has to say of an object that is stored now.
    fn tell(&self, events: Vec<Event>) {
        for event in events {
            if let Err(error) = self.create_as(event) {
                tracing::warn!("event not stored: {error}");
            }
        }
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), ApiError> {
        let kind = object.kind();
        if object.meta().resource_version.as_ref().is_some_and(|v| !v.is_empty()) {
            return Err(ApiError::BadRequest(
                "resourceVersion should not be set on objects to be created".into(),
            ));
        }
        // A kubelet registers its node with the status it has.
        if kind != Kind::Node {
            object.clear_status();
        }
        let now = self.clock().time();
        let meta = object.meta_mut();
        if kind.namespaced() {
            if meta.namespace.as_ref().is_none_or(String::is_empty) {
                meta.namespace = Some("default".into());
            }
        } else {
            meta.namespace = None;
        }
        meta.uid = Some(uuid::Uuid::new_v4().to_string());
        meta.creation_timestamp = Some(now);
        meta.resource_version = None;
        meta.self_link = None;
        meta.deletion_timestamp = None;
        meta.deletion_grace_period_seconds = None;
        meta.generation = kind.info().counts_generations.then_some(1);
        Ok(())
    }

    /// Replaces a part of the object with the same key; a resourceVersion in it must be the current one.
    pub fn update(
        &self,
        object: &Object,
        part: Part,
        options: &WriteOptions,
    ) -> Result<Arc<Object>, ApiError> {
        self.change(object.kind(), &object.key(), part, options, |_| Ok(object.clone()))
    }

    /// Changes metadata and spec of the `T` with this key; unchanged, it is not written.
    pub fn modify<T: Typed>(
        &self,
        key: &Key,
        edit: impl FnMut(&mut T) -> Result<(), ApiError>,
    ) -> Result<Shared<T>, ApiError> {
        self.modify_part(key, Part::Main, edit)
    }

    /// Changes the status of the `T` with this key; unchanged, it is not written.
    pub fn modify_status<T: Typed>(
        &self,
        key: &Key,
        edit: impl FnMut(&mut T) -> Result<(), ApiError>,
    ) -> Result<Shared<T>, ApiError> {
        self.modify_part(key, Part::Status, edit)
    }

    pub(super) fn modify_part<T: Typed>(
        &self,
        key: &Key,
        part: Part,
        mut edit: impl FnMut(&mut T) -> Result<(), ApiError>,
    ) -> Result<Shared<T>, ApiError> {
        let stored = self.change(T::ROW, key, part, &WriteOptions::default(), |current| {
            let mut next = current.clone();
            let value = next.get_mut::<T>().ok_or_else(|| ApiError::not_found(T::ROW, key))?;
            edit(value)?;
            Ok(next)
        })?;
        Ok(Shared::from_object(&stored).expect("a change keeps the type"))
    }

    /// Changes a part of an object: `edit` makes the next version of the current one.
    pub fn change(
        &self,
        kind: Kind,
        key: &Key,
        part: Part,
        options: &WriteOptions,
        mut edit: impl FnMut(&Object) -> Result<Object, ApiError>,
    ) -> Result<Arc<Object>, ApiError> {
        for _ in 0..TRIES {
            let current = self.get(kind, key)?;
            let edited = edit(&current)?;
            let based_on = based_on(&edited)?;
            if based_on != Revision(0) && based_on != current.revision() {
                return Err(ApiError::modified(kind, &key.name));
            }
            let mut next = next_version(&current, edited, part)?;
            if next == *current {
                return Ok(current);
            }
            admission::admit_update(self, part, &current, &mut next)?;
            rules::check_size(&next, Some(&current))?;
            room::check(self, part, &next, Some(&current))?;
            let charge = admission::charge(self, part, Some(&current), &next, options.dry_run)?;
            let taken = self.take_addresses(Some(&current), &mut next, options.dry_run)?;
            if options.dry_run {
                return Ok(Arc::new(next));
            }
            match self.store().replace(next, current.revision()) {
                Ok(stored) => {
                    charge.keep();
                    self.give_addresses_back(&current, Some(&stored));
                    return Ok(self.remove_if_done(stored));
                }
                Err(error) => {
                    self.give_back(&taken);
                    // The edit never named a version, or it named the one it was just given: do it again.
                    if !matches!(error, WriteError::Conflict(_)) {
                        return Err(ApiError::from_write(error, kind, &key.name));
                    }
                }
            }
        }
        Err(ApiError::modified(kind, &key.name))
    }
}

/// The version that an edited object says it was made from; 0 when it says none. A text that is no version is
/// refused: taken for none, it would overwrite what somebody else wrote meanwhile.
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

/// The version to store: what the part allows of the edited one, with the fields the API keeps itself.
fn next_version(current: &Object, mut edited: Object, part: Part) -> Result<Object, ApiError> {
    let (kind, name) = (current.kind(), current.name());
    keep_system_fields(current, &mut edited)?;
    match part {
        Part::Main => {
            edited.copy_status_from(current);
            rules::keep_what_was_given(&mut edited, current);
            rules::apply_defaults(&mut edited);
            rules::number_template(&mut edited, Some(current));
            rules::check_update(&edited, current)?;
        }
        Part::Status => {
            edited.copy_spec_from(current);
            edited.meta_mut().owner_references.clone_from(&current.meta().owner_references);
            rules::complete_status(&mut edited);
            rules::check_status_update(&edited, current)?;
        }
        Part::EphemeralContainers => {
            edited = with_ephemeral_containers(current, &edited);
            rules::apply_defaults(&mut edited);
            rules::check_ephemeral_containers(&edited, current)?;
        }
        Part::Resize => {
            edited = with_resources(current, &edited);
            rules::apply_defaults(&mut edited);
            rules::check_resize(&edited, current)?;
        }
        Part::System => {}
    }
    if kind.info().counts_generations && !edited.same_spec(current) {
        let generation = current.meta().generation.unwrap_or(0);
        edited.meta_mut().generation = Some(generation + 1);
    }
    debug_assert_eq!(edited.name(), name);
    Ok(edited)
}

fn keep_system_fields(current: &Object, edited: &mut Object) -> Result<(), ApiError> {
    let (kind, name) = (current.kind(), current.name());
    if edited.key() != current.key() {
        return Err(ApiError::BadRequest(format!(
            "the name of the object ({}) does not match the name on the URL ({name})",
            edited.name()
        )));
    }
    let old = current.meta();
    if let Some(uid) = edited.meta().uid.as_ref().filter(|uid| !uid.is_empty())
        && Some(uid) != old.uid.as_ref()
    {
        return Err(ApiError::conflict(
            kind,
            name,
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", current.uid()),
        ));
    }
    let new = edited.meta_mut();
    new.uid.clone_from(&old.uid);
    new.resource_version.clone_from(&old.resource_version);
    new.creation_timestamp.clone_from(&old.creation_timestamp);
    new.generate_name.clone_from(&old.generate_name);
    new.deletion_timestamp.clone_from(&old.deletion_timestamp);
    new.deletion_grace_period_seconds = old.deletion_grace_period_seconds;
    new.generation = old.generation;
    new.self_link = None;
    if new.managed_fields.is_none() {
        new.managed_fields.clone_from(&old.managed_fields);
    }
    // Empty maps and lists are absent, as Kubernetes writes them: otherwise a no-op would be a change.
    new.labels = new.labels.take().filter(|l| !l.is_empty());
    new.annotations = new.annotations.take().filter(|a| !a.is_empty());
    new.finalizers = new.finalizers.take().filter(|f| !f.is_empty());
    new.owner_references = new.owner_references.take().filter(|o| !o.is_empty());
    Ok(())
}

/// The current pod with the edited one's ephemeral containers.
fn with_ephemeral_containers(current: &Object, edited: &Object) -> Object {
    let mut next = current.clone();
    if let (Some(to), Body::Pod(from)) = (next.get_mut::<Pod>().and_then(|p| p.spec.as_mut()), edited.body())
    {
        to.ephemeral_containers = from.spec.as_ref().and_then(|s| s.ephemeral_containers.clone());
    }
    next
}

/// The current pod with the edited one's resources. Names that do not fit stay, for validation to find.
fn with_resources(current: &Object, edited: &Object) -> Object {
    let mut next = current.clone();
    let from = edited.get::<Pod>().and_then(|pod| pod.spec.as_ref());
    let (Some(to), Some(from)) = (next.get_mut::<Pod>().and_then(|pod| pod.spec.as_mut()), from) else {
        return next;
    };
    let resized = |old: &[Container], new: &[Container]| -> Vec<Container> {
        let of = |new: &Container| match old.iter().find(|old| old.name == new.name) {
            Some(old) => Container {
                resources: new.resources.clone(),
                resize_policy: new.resize_policy.clone(),
                ..old.clone()
            },
            None => new.clone(),
        };
        new.iter().map(of).collect()
    };
    to.containers = resized(&to.containers, &from.containers);
    let init = resized(
        to.init_containers.as_deref().unwrap_or_default(),
        from.init_containers.as_deref().unwrap_or_default(),
    );
    if to.init_containers.is_some() || !init.is_empty() {
        to.init_containers = Some(init);
    }
    next
}

/// `prefix` and five letters; a long prefix is cut so that the name stays a name.
pub(super) fn generated_name(prefix: &str) -> String {
    let mut random = rand::rng();
    let mut name: String = prefix.chars().take(58).collect();
    name.extend((0..5).map(|_| char::from(NAME_LETTERS[random.random_range(0..NAME_LETTERS.len())])));
    name
}
