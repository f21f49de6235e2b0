//! Runs mutating policies on an object.

use std::sync::Arc;

use super::compiled::{Binding, Policy};
use super::evaluate::apply_mutation;
use super::is_exempt;
use super::params::{self, Param};
use crate::admission::activation::RequestActivation;
use crate::admission::attributes::Attributes;
use crate::admission::reinvocation::{Draft, ReinvocationContext};
use crate::{Api, ApiError, PolicyDenial};
use object::ServedKind;

/// An invocation of a policy: with its binding, its parameter, and its version.
struct Invocation {
    policy: Arc<Policy>,
    binding: Arc<Binding>,
    param: Param,
    index: usize,
    matched: ServedKind,
}

/// The failure of a policy.
struct Failure {
    message: String,
    reason: &'static str,
}

/// Runs the mutating policies in turn. The set of policies is determined before any of them changes the
/// object.
pub(in crate::admission) fn mutate(
    api: &Api,
    draft: &mut dyn Draft,
    rounds: &mut ReinvocationContext,
) -> Result<(), ApiError> {
    let policies = api.inner.policies.mutating.current(api, Policy::mutating);
    if policies.is_empty() || is_exempt(&draft.attributes()) {
        return Ok(());
    }
    let bindings = api.inner.policies.mutating_bindings.current(api, Binding::mutating);
    let mut failures = Vec::new();
    let mut invocations = Vec::new();
    for policy in policies.iter().map(|compiled| &compiled.value) {
        let bound = bindings.iter().map(|compiled| &compiled.value).filter(|b| b.policy == policy.name);
        invocations.extend(invoked(api, &draft.attributes(), policy, bound, &mut failures));
    }
    for invocation in invocations {
        let (policy, binding) = (&invocation.policy, &invocation.binding);
        let key = (policy.name.clone(), binding.name.clone(), invocation.index);
        if rounds.is_second() && !rounds.policies.is_due(&key) {
            continue;
        }
        if change(api, draft, &invocation, &mut failures) {
            rounds.changed();
        }
        if policy.requests_reinvocation {
            rounds.policies.request_reinvocation(key);
        }
    }
    match failures.into_iter().next() {
        Some(failure) => Err(refusal(&draft.attributes(), failure)),
        None => Ok(()),
    }
}

/// Returns the invocations of one policy through all its bindings.
fn invoked<'a>(
    api: &Api,
    attributes: &Attributes<'_>,
    policy: &Arc<Policy>,
    bound: impl Iterator<Item = &'a Arc<Binding>>,
    failures: &mut Vec<Failure>,
) -> Vec<Invocation> {
    let matched = match policy.criteria.matches(api, attributes) {
        Ok(None) => return Vec::new(),
        Ok(Some(matched)) => policy.expressions.as_ref().map(|_| matched).map_err(Clone::clone),
        Err(error) => Err(error.to_string()),
    };
    let matched = match matched {
        Ok(matched) => matched,
        Err(why) => {
            let message =
                format!("policy \"{}\" denied request: failed to configure policy: {why}", policy.name);
            failures.extend(policy.fails_closed.then_some(Failure { message, reason: "Forbidden" }));
            return Vec::new();
        }
    };
    let mut invocations = Vec::new();
    for binding in bound {
        let found = match binding.criteria.matches(api, attributes) {
            Ok(None) => continue,
            Ok(Some(_)) => params::of(api, attributes, policy, binding),
            Err(error) => Err(error.to_string()),
        };
        match found {
            Ok(found) => invocations.extend(found.into_iter().enumerate().map(|(place, param)| Invocation {
                policy: policy.clone(),
                binding: binding.clone(),
                param,
                index: place,
                matched,
            })),
            Err(why) => {
                let detail = format!("failed to configure binding: {why}");
                failures.extend(failure(policy, binding, &detail, "Forbidden"));
            }
        }
    }
    invocations
}

/// Runs one policy; returns true if it changed the object.
fn change(api: &Api, draft: &mut dyn Draft, invocation: &Invocation, failures: &mut Vec<Failure>) -> bool {
    let Invocation { policy, binding, param, matched, .. } = invocation;
    let param = &param.value();
    let Ok(expressions) = &policy.expressions else { return false };
    let activation =
        RequestActivation::of(api, &draft.attributes(), *matched).map_err(|error| error.to_string());
    match activation.and_then(|judged| judged.conditions_match(&expressions.conditions, param)) {
        Ok(true) => {}
        Ok(false) => return false,
        Err(why) => {
            failures.extend(failure(policy, binding, &why, "Invalid"));
            return false;
        }
    }
    let mut has_changed = false;
    for mutation in &expressions.mutations {
        let activation =
            RequestActivation::of(api, &draft.attributes(), *matched).map_err(|error| error.to_string());
        let made = activation.and_then(|judged| apply_mutation(&judged, expressions, mutation, param));
        match made {
            Ok(None) => {}
            Ok(Some(value)) => match draft.replace(api, *matched, value) {
                Ok(changed) => has_changed |= changed,
                Err(error) => failures.extend(failure(policy, binding, &error.to_string(), "Invalid")),
            },
            Err(why) => failures.extend(failure(policy, binding, &why, "Invalid")),
        }
    }
    has_changed
}

/// Returns the failure to report, unless the policy ignores failures.
fn failure(policy: &Policy, binding: &Binding, detail: &str, reason: &'static str) -> Option<Failure> {
    let message =
        format!("policy '{}' with binding '{}' denied request: {detail}", policy.name, binding.name);
    policy.fails_closed.then_some(Failure { message, reason })
}

fn refusal(attributes: &Attributes<'_>, Failure { message, reason }: Failure) -> ApiError {
    let (kind, name) = (attributes.resource.kind(), attributes.name.into());
    ApiError::DeniedByPolicy(Box::new(PolicyDenial {
        kind,
        name,
        cause: message.clone(),
        message,
        reason,
        code: 403,
    }))
}
