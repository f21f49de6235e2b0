//! Mutating admission policies and their bindings.

use k8s_openapi::api::admissionregistration::v1::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding};
use serde_json::json;

use super::expressions::Expressions;
use super::matching::{self, format_param_kind, format_param_ref};
use crate::columns::Column;
use crate::resource::Resource;
use crate::webhook_configuration::REINVOCATION_POLICIES;
use apimachinery::default::set_text;
use apimachinery::validate::{FieldErrors, Path, names};

impl Resource for MutatingAdmissionPolicy {
    const ALLOWS_UNCONDITIONAL_UPDATE: bool = false;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::number(
            "Mutations",
            "Mutations indicates the number of mutations rules defined in this configuration",
            |policy, _| {
                let mutations = policy.spec.as_ref().and_then(|spec| spec.mutations.as_ref());
                json!(mutations.map_or(0, Vec::len))
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
        let constraints = spec.match_constraints.as_ref();
        matching::mutable_operations(errors, &path.child("matchConstraints"), constraints);
        Expressions::of_mutating(errors, &spec);
        let reinvocation = spec.reinvocation_policy.as_deref().filter(|policy| !policy.is_empty());
        errors.required_one_of(&path.child("reinvocationPolicy"), reinvocation, REINVOCATION_POLICIES);
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        // An unchanged spec was validated before, and compiling its expressions takes a while.
        if self.spec != old.spec {
            self.validate(errors);
        }
    }
}

impl Resource for MutatingAdmissionPolicyBinding {
    const ALLOWS_UNCONDITIONAL_UPDATE: bool = false;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text(
            "PolicyName",
            "PolicyName indicates the policy definition which the policy binding binded to",
            |binding, _| {
                let spec = binding.spec.as_ref();
                json!(spec.and_then(|spec| spec.policy_name.as_deref()).unwrap_or_default())
            },
        ),
        Column::text(
            "ParamRef",
            "ParamRef indicates the param resource which sets the configration param",
            |binding, _| format_param_ref(binding.spec.as_ref().and_then(|spec| spec.param_ref.as_ref())),
        ),
        Column::age(),
    ];

    fn apply_defaults(&mut self) {
        let Some(spec) = &mut self.spec else { return };
        if let Some(of) = &mut spec.param_ref {
            set_text(&mut of.parameter_not_found_action, "Deny");
        }
        spec.match_resources.iter_mut().for_each(matching::apply_defaults);
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let spec = self.spec.clone().unwrap_or_default();
        let path = Path::root("spec");
        let policy = spec.policy_name.as_deref().unwrap_or_default();
        errors.required_name(&path.child("policyName"), policy, names::dns_1123_subdomain);
        let matched = spec.match_resources.as_ref();
        matching::binding(errors, &path, spec.param_ref.as_ref(), matched);
        matching::mutable_operations(errors, &path.child("matchResources"), matched);
    }
}
