//! Serves the stored CustomResourceDefinitions from the moment they are stored: after each write of one, and
//! before the API answers any client.
//!
//! This module only follows the status of a definition; its conditions are set by a controller
//! (`controllers::custom_resource_definition`), which decides whether the names are accepted.

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionCondition, CustomResourceDefinitionSpec,
};

use super::Api;
use super::served_kinds::Definition;
use base::clock::time;
use kinds::DefinitionError;
use object::conditions::{self, ConditionStatus};
use object::definition_schemas::DefinitionSchemas;
use object::owner::is_terminating;
use object::{Key, Kind, Object};

/// The finalizer that holds a definition until all objects of its kind are deleted.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The served state of a stored definition.
pub(crate) struct ServedDefinition {
    /// The kind that it defines.
    kind: Kind,
    /// The spec that was read, without the schemas.
    spec: CustomResourceDefinitionSpec,
    schemas: DefinitionSchemas,
    is_terminating: bool,
}

impl Api {
    /// Serves every stored definition.
    pub(crate) fn serve_stored_definitions(&self) {
        for definition in self.list(Kind::CustomResourceDefinition, None).objects {
            self.definition_stored(&definition);
        }
    }

    /// Serves the present state of a definition that was written or deleted. Other objects are ignored.
    pub(super) fn definition_stored(&self, object: &Object) {
        if object.kind() == Kind::CustomResourceDefinition
            && let Err(error) = self.follow_definition(object.name())
        {
            tracing::warn!("cannot serve CustomResourceDefinition {}: {error}", object.name());
        }
    }

    /// Serves the definition of this name in its present state, or stops serving it; returns the kind if it
    /// is served. Idempotent: the controller of definitions calls it to learn why one cannot be served.
    pub fn follow_definition(&self, name: &str) -> Result<Option<Kind>, DefinitionError> {
        let key = Key::new("", name);
        // Locked while the definition is read and served, so that the last write is also the last to be
        // served.
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
        let next = ServedDefinition { kind, spec, schemas, is_terminating };
        if let Some(before) = followed.insert(name.to_string(), next)
            && before.kind != kind
        {
            self.undefine(before.kind);
        }
        Ok(Some(kind))
    }
}

/// Returns the served spec of a definition, and true if it is being deleted; `None` until its names are
/// accepted.
fn served_spec(definition: &CustomResourceDefinition) -> Option<(CustomResourceDefinitionSpec, bool)> {
    let status = definition.status.as_ref()?;
    let holds = |type_| conditions::is_true(status.conditions.as_ref(), type_);
    if !holds("NamesAccepted") && !holds("Established") {
        return None;
    }
    let mut spec = definition.spec.clone();
    // Names that were requested later and belong to another definition are not served.
    spec.names = status.accepted_names.clone().filter(|names| !names.plural.is_empty())?;
    Some((spec, is_terminating(&definition.metadata)))
}

/// Marks a definition at the start of its deletion: its objects are deleted first.
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
