//! CustomResourceDefinitions, with which users add kinds.
//!
//! This module has the strategy of the object itself. `kinds::definition` has what the API derives from it, and
//! `definitions` serves the stored ones.

mod conversion;
mod schema;
mod validate;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition,
};

use super::columns::Column;
use super::resource::Resource;
use apimachinery::default::{set, set_text};
use apimachinery::validate::FieldErrors;
use object::conditions;

impl Resource for CustomResourceDefinition {
    const ALLOWS_UNCONDITIONAL_UPDATE: bool = false;
    const COLUMNS: &'static [Column<Self>] = &[Column::name(), Column::created_at()];

    fn apply_defaults(&mut self) {
        let names = &mut self.spec.names;
        set_text(&mut names.singular, &names.kind.to_lowercase());
        set_text(&mut names.list_kind, &format!("{}List", names.kind));
        set(
            &mut self.spec.conversion,
            CustomResourceConversion { strategy: "None".into(), ..CustomResourceConversion::default() },
        );
        let webhook = self.spec.conversion.as_mut().and_then(|conversion| conversion.webhook.as_mut());
        let config = webhook.and_then(|webhook| webhook.client_config.as_mut());
        if let Some(service) = config.and_then(|config| config.service.as_mut()) {
            set(&mut service.port, 443);
        }
    }

    fn prepare_for_create(&mut self) {
        remember_stored_version(self);
    }

    fn prepare_for_update(&mut self, _old: &Self) {
        remember_stored_version(self);
    }

    fn complete_status(&mut self) {
        let status = self.status.get_or_insert_default();
        status.accepted_names.get_or_insert_default();
        status.conditions.get_or_insert_default();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validate_after(self, None, errors);
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        if old.spec == self.spec && old.metadata.annotations == self.metadata.annotations {
            // A definition that was stored under older rules can still lose a finalizer or gain a label.
            return validate::stored_versions(self, errors);
        }
        validate_after(self, Some(old), errors);
        validate::update(self, old, errors);
    }

    fn validate_status(&self, _old: &Self, errors: &mut FieldErrors) {
        validate::stored_versions(self, errors);
    }
}

/// Validates a definition; `old` is its previous version on an update.
fn validate_after(
    definition: &CustomResourceDefinition,
    old: Option<&CustomResourceDefinition>,
    errors: &mut FieldErrors,
) {
    validate::name(definition, errors);
    validate::spec(&definition.spec, old.map(|old| &old.spec), errors);
    validate::stored_versions(definition, errors);
    validate::approval(definition, errors);
}

/// Adds the current storage version to `status.storedVersions`: the versions in which objects of the kind are or were
/// stored.
fn remember_stored_version(definition: &mut CustomResourceDefinition) {
    let Some(storage) = definition.spec.versions.iter().find(|version| version.storage) else { return };
    let stored = definition.status.get_or_insert_default().stored_versions.get_or_insert_default();
    if !stored.contains(&storage.name) {
        stored.push(storage.name.clone());
    }
}

/// Returns whether the definition is in use. From then on its kind and scope cannot change: stored objects and URL
/// paths depend on them.
fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions::is_true(conditions, "Established")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A cluster may have such a definition from an earlier release, which accepted what this one refuses.
    #[test]
    fn a_stored_rule_that_may_cost_too_much_does_not_hold_up_other_changes_api_14() {
        let definition = |rule: &str, short: &str| -> CustomResourceDefinition {
            let spec = json!({"type": "object",
                "properties": {"list": {"type": "array", "items": {"type": "integer"}}},
                "x-kubernetes-validations": [{"rule": rule}]});
            let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
            let mut made: CustomResourceDefinition =
                serde_json::from_value(json!({"metadata": {"name": "gadgets.made.test"},
                    "spec": {"group": "made.test", "scope": "Namespaced",
                        "names": {"plural": "gadgets", "kind": "Gadget", "shortNames": [short]},
                        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}}))
                .unwrap();
            made.apply_defaults();
            made.prepare_for_create();
            made
        };
        let faults = |old: Option<&CustomResourceDefinition>, new: &CustomResourceDefinition| {
            let mut errors = FieldErrors::default();
            match old {
                Some(old) => new.validate_update(old, &mut errors),
                None => new.validate(&mut errors),
            }
            errors.into_vec().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        let dear = "self.list.all(a, a >= 0 && a <= 9)";
        let refused = "estimated rule cost exceeds budget by factor of 1.1";
        let stored = definition(dear, "gd");
        assert!(faults(None, &stored).contains(refused), "{}", faults(None, &stored));
        assert_eq!(faults(Some(&stored), &definition(dear, "gdt")), "");
        let changed = faults(Some(&stored), &definition("self.list.all(a, a >= 0 && a <= 8)", "gd"));
        assert!(changed.contains(refused), "{changed}");
        assert_eq!(faults(Some(&stored), &definition("self.list.all(a, a >= 0)", "gd")), "");
    }
}
