//! Compiled policies and bindings: compiled once for each change.

use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ParamKind, ParamRef,
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};

use crate::admission::attributes::Attributes;
use crate::admission::matching::{Rules, Selectors};
use crate::{Api, ApiError};
use apimachinery::validate::FieldErrors;
use kinds::admission_policy::Expressions;
use object::{Object, ServedKind};

pub(super) struct Policy {
    pub(super) name: String,
    pub(super) criteria: MatchCriteria,
    /// An expression that fails to evaluate is a denial.
    pub(super) fails_closed: bool,
    pub(super) param_kind: Option<ParamKind>,
    /// The compiled expressions, or the reason why they are invalid.
    pub(super) expressions: Result<Expressions, String>,
    /// The policy requests reinvocation; only mutating policies do.
    pub(super) requests_reinvocation: bool,
}

impl Policy {
    /// Compiles a validating policy.
    pub(super) fn validating(object: &Object) -> Self {
        let spec = object.get::<ValidatingAdmissionPolicy>().and_then(|policy| policy.spec.clone());
        let spec = spec.unwrap_or_default();
        let mut errors = FieldErrors::default();
        let expressions = Expressions::of_validating(&mut errors, object.name(), &spec);
        Self {
            name: object.name().into(),
            criteria: MatchCriteria::of(spec.match_constraints.as_ref(), false),
            fails_closed: spec.failure_policy.as_deref() != Some("Ignore"),
            param_kind: spec.param_kind,
            expressions: valid_expressions(expressions, errors),
            requests_reinvocation: false,
        }
    }

    /// Compiles a mutating policy.
    pub(super) fn mutating(object: &Object) -> Self {
        let spec = object.get::<MutatingAdmissionPolicy>().and_then(|policy| policy.spec.clone());
        let spec = spec.unwrap_or_default();
        let mut errors = FieldErrors::default();
        let expressions = Expressions::of_mutating(&mut errors, &spec);
        Self {
            name: object.name().into(),
            criteria: MatchCriteria::of(spec.match_constraints.as_ref(), false),
            fails_closed: spec.failure_policy.as_deref() != Some("Ignore"),
            param_kind: spec.param_kind,
            expressions: valid_expressions(expressions, errors),
            requests_reinvocation: spec.reinvocation_policy.as_deref() == Some("IfNeeded"),
        }
    }
}

/// Returns the expressions, unless they are invalid.
fn valid_expressions(expressions: Expressions, errors: FieldErrors) -> Result<Expressions, String> {
    match errors.into_vec().first() {
        None => Ok(expressions),
        Some(error) => Err(format!("{}: {}", error.path, error.message())),
    }
}

/// The action for a failed validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Deny,
    Warn,
    /// It is recorded in the audit log.
    Audit,
}

impl Action {
    /// Returns the name in bindings.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Deny => "Deny",
            Self::Warn => "Warn",
            Self::Audit => "Audit",
        }
    }
}

/// A binding: the requests to which a policy applies, and its parameters.
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) policy: String,
    pub(super) criteria: MatchCriteria,
    pub(super) param_ref: Option<ParamRef>,
    pub(super) actions: Vec<Action>,
}

impl Binding {
    /// Compiles the binding of a mutating policy.
    pub(super) fn mutating(object: &Object) -> Self {
        let spec = object.get::<MutatingAdmissionPolicyBinding>().and_then(|binding| binding.spec.clone());
        let spec = spec.unwrap_or_default();
        Self {
            name: object.name().into(),
            policy: spec.policy_name.unwrap_or_default(),
            criteria: MatchCriteria::of(spec.match_resources.as_ref(), true),
            param_ref: spec.param_ref,
            actions: Vec::new(),
        }
    }

    /// Compiles the binding of a validating policy.
    pub(super) fn validating(object: &Object) -> Self {
        let spec = object.get::<ValidatingAdmissionPolicyBinding>().map(|binding| binding.spec.clone());
        let spec = spec.unwrap_or_default();
        let action = |name: &String| match name.as_str() {
            "Deny" => Some(Action::Deny),
            "Warn" => Some(Action::Warn),
            "Audit" => Some(Action::Audit),
            _ => None,
        };
        Self {
            name: object.name().into(),
            policy: spec.policy_name,
            criteria: MatchCriteria::of(spec.match_resources.as_ref(), true),
            param_ref: spec.param_ref,
            actions: spec.validation_actions.iter().filter_map(action).collect(),
        }
    }
}

/// The requests in scope.
pub(super) struct MatchCriteria {
    rules: Rules,
    excluded: Rules,
    selectors: Selectors,
    /// Every request matches if there are no rules: true for bindings.
    matches_without_rules: bool,
}

impl MatchCriteria {
    fn of(given: Option<&MatchResources>, is_open: bool) -> Self {
        let given = given.cloned().unwrap_or_default();
        let policy = given.match_policy.as_deref();
        Self {
            rules: Rules::new(given.resource_rules.as_ref(), policy),
            excluded: Rules::new(given.exclude_resource_rules.as_ref(), policy),
            selectors: Selectors::new(given.namespace_selector.as_ref(), given.object_selector.as_ref()),
            matches_without_rules: is_open,
        }
    }

    /// Returns the version in which a request matches, if it does.
    pub(super) fn matches(
        &self,
        api: &Api,
        attributes: &Attributes<'_>,
    ) -> Result<Option<ServedKind>, ApiError> {
        if self.excluded.matches(api, attributes).is_some() {
            return Ok(None);
        }
        let matched = if self.matches_without_rules && self.rules.is_empty() {
            Some(attributes.resource)
        } else {
            self.rules.matches(api, attributes)
        };
        let Some(matched) = matched else { return Ok(None) };
        Ok(self.selectors.matches(api, attributes)?.then_some(matched))
    }
}
