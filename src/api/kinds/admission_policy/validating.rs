//! Validating policies, and what binds them.

use std::collections::HashSet;

use k8s_openapi::api::admissionregistration::v1::{
    ParamRef, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use serde_json::{Value, json};

use super::expressions::Expressions;
use super::matching;
use crate::default::set_text;
use crate::kinds::columns::{Column, selector_cell};
use crate::kinds::resource::Resource;
use crate::kinds::webhook_configuration::FAILURE_POLICIES;
use crate::validate::{FieldErrors, Path, names};

const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];

impl Resource for ValidatingAdmissionPolicy {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::number(
            "Validations",
            "Validations indicates the number of validation rules defined in this configuration",
            |policy, _| {
                let validations = policy.spec.as_ref().and_then(|spec| spec.validations.as_ref());
                json!(validations.map_or(0, Vec::len))
            },
        ),
        Column::text(
            "ParamKind",
            "ParamKind specifies the kind of resources used to parameterize this policy",
            |policy, _| {
                let kind = policy.spec.as_ref().and_then(|spec| spec.param_kind.as_ref());
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                json!(kind.map_or_else(
                    || "<unset>".to_string(),
                    |kind| format!("{}/{}", text(&kind.api_version), text(&kind.kind))
                ))
            },
        ),
        Column::age(),
    ];

    fn apply_defaults(&mut self) {
        let Some(spec) = &mut self.spec else { return };
        set_text(&mut spec.failure_policy, "Fail");
        spec.match_constraints.iter_mut().for_each(matching::apply_defaults);
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let spec = self.spec.clone().unwrap_or_default();
        let path = Path::root("spec");
        errors.required_one_of(
            &path.child("failurePolicy"),
            spec.failure_policy.as_deref(),
            FAILURE_POLICIES,
        );
        if let Some(kind) = &spec.param_kind {
            matching::param_kind(errors, &path.child("paramKind"), kind);
        }
        let at = path.child("matchConstraints");
        match &spec.match_constraints {
            None => errors.required(&at, ""),
            Some(constraints) => {
                matching::validate(errors, &at, constraints);
                if constraints.resource_rules.as_ref().is_none_or(Vec::is_empty) {
                    errors.required(&at.child("resourceRules"), "");
                }
            }
        }
        Expressions::of_validating(errors, self.metadata.name.as_deref().unwrap_or_default(), &spec);
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        // What was sound is sound, and reading expressions takes a while.
        if self.spec != old.spec {
            self.validate(errors);
        }
    }
}

impl Resource for ValidatingAdmissionPolicyBinding {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text(
            "PolicyName",
            "PolicyName indicates the policy definition which the policy binding binded to",
            |binding, _| json!(binding.spec.policy_name),
        ),
        Column::text(
            "ParamRef",
            "ParamRef indicates the param resource which sets the configration param",
            |binding, _| shown(binding.spec.param_ref.as_ref()),
        ),
        Column::age(),
    ];

    fn apply_defaults(&mut self) {
        if let Some(of) = &mut self.spec.param_ref {
            set_text(&mut of.parameter_not_found_action, "Deny");
        }
        self.spec.match_resources.iter_mut().for_each(matching::apply_defaults);
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("spec");
        errors.required_name(&path.child("policyName"), &self.spec.policy_name, names::dns_1123_subdomain);
        if let Some(of) = &self.spec.param_ref {
            matching::param_ref(errors, &path.child("paramRef"), of);
        }
        if let Some(of) = &self.spec.match_resources {
            matching::validate(errors, &path.child("matchResources"), of);
        }
        let list = path.child("validationActions");
        let mut seen = HashSet::new();
        for (i, action) in self.spec.validation_actions.iter().enumerate() {
            errors.one_of(&list.index(i), action, ACTIONS);
            if !seen.insert(action.as_str()) {
                errors.duplicate(&list.index(i), action);
            }
        }
        if seen.contains("Deny") && seen.contains("Warn") {
            let why = "must not contain both Deny and Warn (repeating the same validation failure information in the \
                       API response and headers serves no purpose)";
            errors.invalid(&list, &self.spec.validation_actions, why);
        }
        if seen.is_empty() {
            errors.required(&list, "at least one validation action is required");
        }
    }
}

/// What a binding takes its parameters from.
fn shown(of: Option<&ParamRef>) -> Value {
    let Some(of) = of else { return json!("<unset>") };
    let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    match (text(&of.namespace), text(&of.name), &of.selector) {
        (Some(namespace), Some(name), _) => json!(format!("{namespace}/{name}")),
        (None, Some(name), _) => json!(name),
        (_, None, Some(selector)) => selector_cell(Some(selector)),
        (_, None, None) => json!("<unset>"),
    }
}
