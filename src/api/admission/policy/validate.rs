//! Runs validating policies.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::compiled::{Action, Binding, Policy};
use super::evaluate::{Denial, evaluate};
use super::{is_exempt, params};
use crate::admission::activation::RequestActivation;
use crate::admission::attributes::Attributes;
use crate::{Api, ApiError, PolicyDenial};
use base::quote::quote;

/// The annotation with failed validations.
const FAILURES: &str = "validation.policy.admission.k8s.io/validation_failure";

/// Runs every policy that is bound to the request.
pub(in crate::admission) fn validate(api: &Api, attributes: &Attributes<'_>) -> Result<(), ApiError> {
    let policies = api.inner.policies.validating.current(api, Policy::validating);
    if policies.is_empty() || is_exempt(attributes) {
        return Ok(());
    }
    let bindings = api.inner.policies.validating_bindings.current(api, Binding::validating);
    let mut denied = None;
    let mut annotations = AuditAnnotations::default();
    for policy in policies.iter().map(|compiled| &compiled.value) {
        let bound = bindings.iter().map(|compiled| &compiled.value).filter(|b| b.policy == policy.name);
        if let Some(denial) = evaluate_policy(api, attributes, policy, bound, &mut annotations) {
            denied.get_or_insert(denial);
        }
    }
    annotations.record_annotations(attributes);
    denied.map_or(Ok(()), |(message, reason)| Err(refusal(attributes, message, &reason)))
}

/// The audit annotations of a request.
#[derive(Default)]
struct AuditAnnotations {
    /// Failed validations whose bindings demand audit.
    failures: Vec<Value>,
    /// The values of each annotation by its full key; several bindings may each give a value.
    annotations: BTreeMap<String, Vec<String>>,
}

impl AuditAnnotations {
    fn annotate(&mut self, policy: &Policy, key: &str, value: String) {
        let values = self.annotations.entry(format!("{}/{key}", policy.name)).or_default();
        if !values.contains(&value) {
            values.push(value);
        }
    }

    /// Records a failed validation in the form of Kubernetes' `ValidationFailureValue`.
    fn failed(&mut self, policy: &Policy, binding: &Binding, denial: &Denial) {
        self.failures.push(json!({
            "message": denial.message,
            "policy": policy.name,
            "binding": binding.name,
            "expressionIndex": denial.index,
            "validationActions": binding.actions.iter().map(|action| action.name()).collect::<Vec<_>>(),
        }));
    }

    fn record_annotations(self, attributes: &Attributes<'_>) {
        let Some(audit) = attributes.audit() else { return };
        for (key, values) in self.annotations {
            audit.annotate(key, values.join(", "));
        }
        if !self.failures.is_empty() {
            audit.annotate(FAILURES.into(), Value::Array(self.failures).to_string());
        }
    }
}

/// Runs one policy through all its bindings; returns the first refusal, with its reason.
fn evaluate_policy<'a>(
    api: &Api,
    attributes: &Attributes<'_>,
    policy: &Policy,
    bound: impl Iterator<Item = &'a Arc<Binding>>,
    annotations: &mut AuditAnnotations,
) -> Option<(String, String)> {
    let of_policy = |reason: String| {
        let message = format!("failed to configure policy: {reason}");
        let denial = policy.fails_closed.then(|| Denial::evaluation_error(message))?;
        Some(denial_message(policy, None, denial))
    };
    let matched = match policy.criteria.matches(api, attributes) {
        Ok(None) => return None,
        Ok(Some(matched)) => matched,
        Err(error) => return of_policy(error.to_string()),
    };
    let expressions = match &policy.expressions {
        Ok(expressions) => expressions,
        Err(why) => return of_policy(why.clone()),
    };
    let mut cached_activation = None;
    let mut refused = None;
    for binding in bound {
        let of_binding = |reason: String| {
            let message = format!("failed to configure binding: {reason}");
            let denial = policy.fails_closed.then(|| Denial::evaluation_error(message))?;
            Some(denial_message(policy, Some(binding), denial))
        };
        let found = match binding.criteria.matches(api, attributes) {
            Ok(None) => continue,
            Ok(Some(_)) => params::of(api, attributes, policy, binding),
            Err(error) => Err(error.to_string()),
        };
        let found = match found {
            Ok(found) => found,
            Err(why) => {
                refused = refused.or_else(|| of_binding(why));
                continue;
            }
        };
        let activation: &RequestActivation<'_> = match &mut cached_activation {
            Some(judged) => judged,
            none => match RequestActivation::of(api, attributes, matched) {
                Ok(made) => none.insert(made),
                Err(error) => return of_policy(error.to_string()),
            },
        };
        for param in &found {
            let verdict = evaluate(activation, expressions, &param.value(), policy.fails_closed);
            for (key, value) in verdict.annotations {
                annotations.annotate(policy, &key, value);
            }
            for denial in verdict.denials {
                let count = |action| {
                    let metrics = &api.metrics().admission;
                    metrics.policy_failed(&policy.name, &binding.name, &denial.message, action);
                };
                if binding.actions.contains(&Action::Warn) {
                    count("warn");
                    warn(attributes, policy, binding, &denial);
                }
                if binding.actions.contains(&Action::Audit) {
                    count("audit");
                    annotations.failed(policy, binding, &denial);
                }
                if binding.actions.contains(&Action::Deny) {
                    count("deny");
                    refused.get_or_insert_with(|| denial_message(policy, Some(binding), denial));
                }
            }
        }
    }
    refused
}

/// Returns the message of a refusal, and its reason.
fn denial_message(policy: &Policy, binding: Option<&Binding>, denial: Denial) -> (String, String) {
    let with = binding.map(|binding| format!(" with binding '{}'", binding.name)).unwrap_or_default();
    let message =
        format!("ValidatingAdmissionPolicy '{}'{with} denied request: {}", policy.name, denial.message);
    (message, denial.reason.unwrap_or_else(|| "Invalid".into()))
}

fn warn(attributes: &Attributes<'_>, policy: &Policy, binding: &Binding, denial: &Denial) {
    attributes.warn(format!(
        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
        policy.name, binding.name, denial.message
    ));
}

fn refusal(attributes: &Attributes<'_>, cause: String, reason: &str) -> ApiError {
    let (reason, code) = match reason {
        "Forbidden" => ("Forbidden", 403),
        "RequestEntityTooLarge" => ("RequestEntityTooLarge", 413),
        _ => ("Invalid", 422),
    };
    let kind = attributes.resource.kind();
    let message =
        format!("{} {} is forbidden: {cause}", kind.info().qualified_plural(), quote(attributes.name));
    ApiError::DeniedByPolicy(Box::new(PolicyDenial {
        kind,
        name: attributes.name.into(),
        message,
        cause,
        reason,
        code,
    }))
}
