//! Validating admission policies: what users say in expressions that must hold of what is written, where their bindings
//! say so. As Kubernetes' ValidatingAdmissionPolicy, with its texts.

mod configured;
mod judge;
mod params;

use std::sync::Arc;

use self::configured::{Action, Binding, Policy};
use self::judge::{Denial, Judged};
use super::attributes::{Attributes, Options};
use super::configurations::Configurations;
use crate::{Api, ApiError};
use object::{Kind, Object};

/// The policies and bindings that there are.
pub(crate) struct Policies {
    validating: Configurations<Policy>,
    bindings: Configurations<Binding>,
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            validating: Configurations::new(Kind::ValidatingAdmissionPolicy),
            bindings: Configurations::new(Kind::ValidatingAdmissionPolicyBinding),
        }
    }
}

impl Policies {
    /// An object was written, or is gone: if it is one of these, what it says is acted upon from now on.
    pub(crate) fn object_stored(&self, object: &Object) {
        self.validating.object_stored(object);
        self.bindings.object_stored(object);
    }
}

/// What says who may write is not judged by it: nobody could mend it.
const EXEMPT: [&str; 4] = [
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// Asks every policy that is bound to what is asked.
pub(super) fn validate(api: &Api, asked: &Attributes<'_>) -> Result<(), ApiError> {
    let policies = api.policies().validating.current(api, Policy::read);
    if policies.is_empty() || is_exempt(asked) {
        return Ok(());
    }
    let bindings = api.policies().bindings.current(api, Binding::read);
    let mut denied = None;
    for policy in policies.iter().map(|compiled| &compiled.value) {
        let bound = bindings.iter().map(|compiled| &compiled.value).filter(|b| b.policy == policy.name);
        if let Some(denial) = ask(api, asked, policy, bound) {
            denied.get_or_insert(denial);
        }
    }
    denied.map_or(Ok(()), |(message, reason)| Err(refusal(asked, message, &reason)))
}

fn is_exempt(asked: &Attributes<'_>) -> bool {
    asked.resource.group() == "admissionregistration.k8s.io"
        && EXEMPT.contains(&asked.resource.kind().info().name)
}

/// Asks one policy by all its bindings; the first refusal, with its reason.
fn ask<'a>(
    api: &Api,
    asked: &Attributes<'_>,
    policy: &Policy,
    bound: impl Iterator<Item = &'a Arc<Binding>>,
) -> Option<(String, String)> {
    let of_policy = |why: String| {
        let message = format!("failed to configure policy: {why}");
        let denial = policy.is_strict.then(|| Denial { message, reason: None })?;
        Some(told(policy, None, denial))
    };
    let matched = match policy.criteria.matches(api, asked) {
        Ok(None) => return None,
        Ok(Some(matched)) => matched,
        Err(error) => return of_policy(error.to_string()),
    };
    let expressions = match &policy.expressions {
        Ok(expressions) => expressions,
        Err(why) => return of_policy(why.clone()),
    };
    let mut judged = None;
    let mut refused = None;
    for binding in bound {
        let of_binding = |why: String| {
            let message = format!("failed to configure binding: {why}");
            let denial = policy.is_strict.then(|| Denial { message, reason: None })?;
            Some(told(policy, Some(binding), denial))
        };
        let found = match binding.criteria.matches(api, asked) {
            Ok(None) => continue,
            Ok(Some(_)) => params::of(api, asked, policy, binding),
            Err(error) => Err(error.to_string()),
        };
        let found = match found {
            Ok(found) => found,
            Err(why) => {
                refused = refused.or_else(|| of_binding(why));
                continue;
            }
        };
        let judged: &Judged<'_> = judged.get_or_insert_with(|| Judged::of(api, asked, matched));
        for param in &found {
            for denial in judged.denials(expressions, param, policy.is_strict) {
                if binding.actions.contains(&Action::Warn) {
                    warn(asked, policy, binding, &denial);
                }
                if binding.actions.contains(&Action::Deny) {
                    refused.get_or_insert_with(|| told(policy, Some(binding), denial));
                }
            }
        }
    }
    refused
}

/// A refusal as it is told, and its reason.
fn told(policy: &Policy, binding: Option<&Binding>, denial: Denial) -> (String, String) {
    let with = binding.map(|binding| format!(" with binding '{}'", binding.name)).unwrap_or_default();
    let message =
        format!("ValidatingAdmissionPolicy '{}'{with} denied request: {}", policy.name, denial.message);
    (message, denial.reason.unwrap_or_else(|| "Invalid".into()))
}

fn warn(asked: &Attributes<'_>, policy: &Policy, binding: &Binding, denial: &Denial) {
    let warnings = match asked.options {
        Options::Write(options) => &options.warnings,
        Options::Delete(options) => &options.warnings,
        Options::Connect => return,
    };
    warnings.extend([format!(
        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
        policy.name, binding.name, denial.message
    )]);
}

fn refusal(asked: &Attributes<'_>, message: String, reason: &str) -> ApiError {
    let reason = ["Forbidden", "RequestEntityTooLarge"].into_iter().find(|known| *known == reason);
    ApiError::Denied {
        kind: asked.resource.kind(),
        name: asked.name.into(),
        message,
        reason: reason.unwrap_or("Invalid"),
    }
}

#[cfg(test)]
mod tests;
