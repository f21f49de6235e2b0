//! Validating admission policies and their bindings.

use std::collections::HashSet;

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use serde_json::json;

use super::expressions::Expressions;
use super::matching::{self, format_param_kind, format_param_ref};
use crate::columns::Column;
use crate::resource::Resource;
use apimachinery::default::set_text;
use apimachinery::validate::{FieldErrors, Path, conditions, names};

const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];

impl Resource for ValidatingAdmissionPolicy {
    const ALLOWS_UNCONDITIONAL_UPDATE: bool = false;
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
            |policy, _| format_param_kind(policy.spec.as_ref().and_then(|spec| spec.param_kind.as_ref())),
        ),
        Column::age(),
    ];

    fn apply_defaults(&mut self) {
        let Some(spec) = &mut self.spec else { return };
        set_text(&mut spec.failure_policy, "Fail");
        spec.match_constraints.iter_mut().for_each(matching::apply_defaults);
    }

    fn complete_status(&mut self) {
        self.status.get_or_insert_default();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let spec = self.spec.clone().unwrap_or_default();
        let path = Path::root("spec");
        matching::policy(
            errors,
            &path,
            spec.failure_policy.as_deref(),
            spec.param_kind.as_ref(),
            spec.match_constraints.as_ref(),
        );
        Expressions::of_validating(errors, self.metadata.name.as_deref().unwrap_or_default(), &spec);
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        // An unchanged spec was validated before, and compiling its expressions takes a while.
        if self.spec != old.spec {
            self.validate(errors);
        }
    }

    fn validate_status(&self, _old: &Self, errors: &mut FieldErrors) {
        let Some(status) = &self.status else { return };
        let path = Path::root("status");
        let warnings =
            status.type_checking.iter().flat_map(|check| check.expression_warnings.iter().flatten());
        let list = path.child("typeChecking.expressionWarnings");
        for (path, warning) in list.each(warnings) {
            for (field, text) in
                [("warning", warning.warning.as_str()), ("fieldRef", warning.field_ref.trim())]
            {
                if text.is_empty() {
                    errors.required(&path.child(field), "");
                }
            }
        }
        conditions::conditions(errors, &path.child("conditions"), status.conditions.as_deref());
    }
}

impl Resource for ValidatingAdmissionPolicyBinding {
    const ALLOWS_UNCONDITIONAL_UPDATE: bool = false;
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
            |binding, _| format_param_ref(binding.spec.param_ref.as_ref()),
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
        let (params, matched) = (self.spec.param_ref.as_ref(), self.spec.match_resources.as_ref());
        matching::binding(errors, &path, params, matched);
        let list = path.child("validationActions");
        let mut seen = HashSet::new();
        for (i, action) in self.spec.validation_actions.iter().enumerate() {
            errors.one_of(&list.index(i), action, ACTIONS);
            errors.unique(&mut seen, &list.index(i), action.as_str());
        }
        if seen.contains("Deny") && seen.contains("Warn") {
            let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the \
                       API response and headers serves no purpose)";
            errors.invalid(&list, &self.spec.validation_actions, detail);
        }
        if seen.is_empty() {
            errors.required(&list, "at least one validation action is required");
        }
    }
}
