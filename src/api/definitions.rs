//! Serves what the stored CustomResourceDefinitions say, from the moment they are stored: after each write of one, and
//! before the API answers anybody.
//!
//! Here it is only followed what a definition's status says; its conditions are the work of a controller
//! (`controllers::custom_resource_definition`), which is asked through the status whether the names are taken.

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionCondition, CustomResourceDefinitionSpec,
};

use super::Api;
use super::kinds::{Definition, DefinitionError};
use base::clock::time;
use object::conditions::{self, ConditionStatus};
use object::definition_schemas::DefinitionSchemas;
use object::owner::is_terminating;
use object::{Key, Kind, Object};

/// Holds a definition until the objects of its kind are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// What is served of a stored definition.
pub(crate) struct Followed {
    /// The kind it gave.
    kind: Kind,
    /// The spec that it was read from, without the schemas.
    spec: CustomResourceDefinitionSpec,
    schemas: DefinitionSchemas,
    is_terminating: bool,
}

impl Api {
    /// Serves every definition that is stored.
    pub(crate) fn serve_stored_definitions(&self) {
        for definition in self.list(Kind::CustomResourceDefinition, None).objects {
            self.definition_stored(&definition);
        }
    }

    /// A definition was written, or is gone: serves what it says now. Any other object is none of this one's business.
    pub(super) fn definition_stored(&self, object: &Object) {
        if object.kind() == Kind::CustomResourceDefinition
            && let Err(error) = self.follow_definition(object.name())
        {
            tracing::warn!("CustomResourceDefinition {} cannot be served: {error}", object.name());
        }
    }

    /// Serves what the definition of this name says, or no longer what it said; the kind, when it is served. Done again,
    /// it changes nothing: the controller of definitions asks so why one cannot be served.
    pub fn follow_definition(&self, name: &str) -> Result<Option<Kind>, DefinitionError> {
        let key = Key::new("", name);
        // Held while the definition is read and taken over, so that the last to write one is the last to serve it.
        let mut followed = self.inner.definitions.lock();
        let stored = self.get_as::<CustomResourceDefinition>(&key).ok();
        let schemas = stored.as_ref().map(|stored| stored.object().definition_schemas()).unwrap_or_default();
        let Some((spec, is_terminating)) = stored.as_deref().and_then(served_spec) else {
            if let Some(before) = followed.remove(name) {
                self.undefine(before.kind);
            }
            return Ok(None);
        };
        if let Some(before) = followed.get(name)
            && (&before.spec, &before.schemas, before.is_terminating) == (&spec, &schemas, is_terminating)
        {
            return Ok(Some(before.kind));
        }
        let mut definition = Definition::of(&spec, &schemas)?;
        definition.is_terminating = is_terminating;
        let kind = definition.kind;
        self.serve(definition);
        let next = Followed { kind, spec, schemas, is_terminating };
        if let Some(before) = followed.insert(name.to_string(), next)
            && before.kind != kind
        {
            self.undefine(before.kind);
        }
        Ok(Some(kind))
    }
}

/// What is served of a definition, and whether it is being deleted; nothing before its names are accepted.
fn served_spec(definition: &CustomResourceDefinition) -> Option<(CustomResourceDefinitionSpec, bool)> {
    let status = definition.status.as_ref()?;
    let holds = |type_| conditions::is_true(status.conditions.as_ref(), type_);
    if !holds("NamesAccepted") && !holds("Established") {
        return None;
    }
    let mut spec = definition.spec.clone();
    // Names that were asked for later, and are in use, are not its own.
    spec.names = status.accepted_names.clone().filter(|names| !names.plural.is_empty())?;
    Some((spec, is_terminating(&definition.metadata)))
}

/// What the deletion of a definition begins with: its objects go first.
pub(crate) fn mark_terminating(object: &mut Object, now: Timestamp) {
    let Some(definition) = object.get_mut::<CustomResourceDefinition>() else { return };
    let finalizers = definition.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == CLEANUP_FINALIZER) {
        finalizers.push(CLEANUP_FINALIZER.into());
    }
    let conditions = definition.status.get_or_insert_default().conditions.get_or_insert_default();
    let condition = CustomResourceDefinitionCondition {
        type_: "Terminating".into(),
        status: ConditionStatus::True.into(),
        reason: Some("InstanceDeletionPending".into()),
        message: Some(
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon".into(),
        ),
        last_transition_time: Some(time(now)),
        ..CustomResourceDefinitionCondition::default()
    };
    conditions::set(conditions, condition);
}
