//! Admission webhooks: external servers that review requests, and may change their objects.
//!
//! Mutating webhooks are called one after the other, in the order of their configurations' names and in the
//! order within each; validating ones all at once. No lock is held meanwhile: if another write changes the
//! object in between, the request is processed again, as every change is.

mod audit_annotations;
mod hook;
mod review;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use self::audit_annotations::WebhookPosition;
use self::hook::Webhook;
use self::review::{ReviewResult, WebhookType};
use super::attributes::{Attributes, Operation, Requester};
use super::configurations::{CompiledConfiguration, Configurations};
use super::reinvocation::{Draft, ReinvocationContext};
use crate::metrics::{WebhookCall, WebhookOutcome};
use crate::webhook_client::{Call, Callee, CallerKind, truncate_error};
use crate::{Api, ApiError, deadline};
use apimachinery::patch::{PatchType, apply_patch_value};
use base::quote::quote;
use object::{Kind, Object, ServedKind};

type CompiledWebhooks = Arc<Vec<CompiledConfiguration<Vec<Webhook>>>>;

/// The configured webhooks.
pub(crate) struct Webhooks {
    mutating: Configurations<Vec<Webhook>>,
    validating: Configurations<Vec<Webhook>>,
}

impl Default for Webhooks {
    fn default() -> Self {
        Self {
            mutating: Configurations::new(Kind::MutatingWebhookConfiguration),
            validating: Configurations::new(Kind::ValidatingWebhookConfiguration),
        }
    }
}

impl Webhooks {
    /// Marks the cache as outdated if the written object is a configuration.
    pub(crate) fn object_stored(&self, object: &Object) {
        self.mutating.object_stored(object);
        self.validating.object_stored(object);
    }

    /// Returns the names of all webhooks.
    pub(crate) fn names(&self, api: &Api) -> HashSet<String> {
        let configured = [self.mutating(api), self.validating(api)];
        configured.iter().flat_map(|one| each(one).map(|(_, hook)| hook.name.clone())).collect()
    }

    fn mutating(&self, api: &Api) -> CompiledWebhooks {
        self.mutating.current(api, hook::of_configuration)
    }

    fn validating(&self, api: &Api) -> CompiledWebhooks {
        self.validating.current(api, hook::of_configuration)
    }
}

/// A webhook's response, and the duration of the call; the error has the reason for a failed call or an
/// invalid response.
struct CallResult {
    response: Result<ReviewResult, String>,
    time: Duration,
}

/// Returns each webhook, in order, with the indexes of its configuration and of itself in it.
fn each(
    configured: &[CompiledConfiguration<Vec<Webhook>>],
) -> impl Iterator<Item = ((usize, usize), &Webhook)> {
    let hooks = configured.iter().enumerate();
    hooks.flat_map(|(i, one)| one.value.iter().enumerate().map(move |(j, hook)| ((i, j), hook)))
}

/// Returns true if some webhook could match a request with one of these operations.
pub(crate) fn has_matching_webhook(
    api: &Api,
    operations: &[Operation],
    kind: Kind,
    subresource: &str,
) -> bool {
    let webhooks = &api.inner.webhooks;
    [webhooks.mutating(api), webhooks.validating(api)]
        .iter()
        .any(|configured| each(configured).any(|(_, hook)| hook.may_match(operations, kind, subresource)))
}

/// Returns the callees of a request with one of these operations in a namespace; the namespace is empty for
/// cluster-scoped objects, also for namespaces.
pub(super) fn callees(
    api: &Api,
    operations: &[Operation],
    (kind, subresource): (Kind, &str),
    namespace: &str,
) -> Vec<Callee> {
    let webhooks = &api.inner.webhooks;
    let mut parties = Vec::new();
    for configured in [webhooks.mutating(api), webhooks.validating(api)] {
        for (_, hook) in each(&configured) {
            if hook.may_match(operations, kind, subresource)
                && !parties.contains(&hook.callee)
                && hook.may_select(api, namespace)
            {
                parties.push(hook.callee.clone());
            }
        }
    }
    parties
}

/// Calls the mutating webhooks in turn.
pub(super) fn mutate(
    api: &Api,
    draft: &mut dyn Draft,
    rounds: &mut ReinvocationContext,
) -> Result<(), ApiError> {
    let configured = api.inner.webhooks.mutating(api);
    if configured.is_empty() || draft.attributes().is_of_admission() {
        return Ok(());
    }
    for (index, (place, hook)) in each(&configured).enumerate() {
        let Some(matched) = hook.matches(api, &draft.attributes())? else { continue };
        if rounds.is_second() && !rounds.webhooks.is_due(&place) {
            continue;
        }
        let at = WebhookPosition {
            webhook_type: WebhookType::Mutating,
            round: usize::from(rounds.is_second()),
            index,
        };
        let has_changed = mutate_by(api, hook, draft, matched, at)?;
        if has_changed {
            rounds.changed();
        }
        if hook.requests_reinvocation {
            rounds.webhooks.request_reinvocation(place);
        }
    }
    Ok(())
}

/// Calls one mutating webhook; returns true if it changed the object.
fn mutate_by(
    api: &Api,
    hook: &Webhook,
    draft: &mut dyn Draft,
    matched: ServedKind,
    at: WebhookPosition,
) -> Result<bool, ApiError> {
    let attributes = draft.attributes();
    hook.check_dry_run(&attributes)?;
    let answers = call_webhooks(api, &attributes, &[(hook, matched)], WebhookType::Mutating)?;
    let Some(answer) = answers
        .into_iter()
        .next()
        .map(|heard| apply_response(api, &attributes, hook, heard, at))
        .transpose()?
        .flatten()
    else {
        return Ok(false);
    };
    let internal = |reason: String| ApiError::Internal(truncate_error(reason));
    let patch = answer.patch.map(|patch| serde_json::from_slice(&patch)).transpose();
    let patch: Option<Value> = patch.map_err(|error| internal(error.to_string()))?;
    let Some(patch) = patch.filter(|patch| patch.as_array().is_none_or(|steps| !steps.is_empty())) else {
        audit_annotations::mutated(&attributes, hook, at, None);
        return Ok(false);
    };
    // The patched object is checked later; this check of the patch bounds the work until then.
    crate::object_checks::check_parts(&patch)?;
    let value = attributes.object.value(api, matched)?;
    if value.is_null() {
        let name = quote(&hook.name);
        return Err(internal(format!(
            "admission webhook {name} attempted to modify the object, which is not supported for this operation"
        )));
    }
    let patched = apply_patch_value(matched.kind(), PatchType::Json, &value, patch.clone());
    let patched = patched.map_err(|error| internal(error.to_string()))?;
    let has_changed = patched != value;
    audit_annotations::mutated(&attributes, hook, at, has_changed.then_some(&patch));
    if !has_changed {
        return Ok(false);
    }
    draft.replace(api, matched, patched)
}

/// Calls the validating webhooks, all at once.
pub(super) fn validate(api: &Api, attributes: &Attributes<'_>) -> Result<(), ApiError> {
    let configured = api.inner.webhooks.validating(api);
    if configured.is_empty() || attributes.is_of_admission() {
        return Ok(());
    }
    let mut hooks = Vec::new();
    for (_, hook) in each(&configured) {
        if let Some(matched) = hook.matches(api, attributes)? {
            hook.check_dry_run(attributes)?;
            hooks.push((hook, matched));
        }
    }
    if hooks.is_empty() {
        return Ok(());
    }
    let answers = call_webhooks(api, attributes, &hooks, WebhookType::Validating)?;
    let results: Vec<_> = hooks
        .iter()
        .zip(answers)
        .enumerate()
        .map(|(index, ((hook, _), heard))| {
            apply_response(
                api,
                attributes,
                hook,
                heard,
                WebhookPosition { webhook_type: WebhookType::Validating, round: 0, index },
            )
        })
        .collect();
    // All webhooks have responded. The client gets the first refusal, and the others are logged.
    let mut refusals = results.into_iter().filter_map(Result::err);
    let first = refusals.next();
    refusals.for_each(|refusal| tracing::warn!("another webhook also denied the request: {refusal}"));
    first.map_or(Ok(()), Err)
}

/// Returns the webhooks' responses, in their order.
fn call_webhooks(
    api: &Api,
    attributes: &Attributes<'_>,
    hooks: &[(&Webhook, ServedKind)],
    webhook_type: WebhookType,
) -> Result<Vec<CallResult>, ApiError> {
    let budget = deadline::remaining_time();
    if budget.is_some_and(|patience| patience.is_zero()) {
        return Err(ApiError::Timeout("request did not complete within requested timeout".into()));
    }
    let mut calls = Vec::new();
    let mut started = Vec::new();
    for (hook, matched) in hooks {
        let uid = base::random::uuid();
        let request = attributes.admission_request(api, *matched, &uid)?;
        match hook.call(api, request, budget) {
            Ok(call) => {
                let clock = api.server_clock().clone();
                let call = async move {
                    let started_at = clock.monotonic();
                    let answered = call.await;
                    Ok((answered, clock.monotonic().saturating_sub(started_at)))
                };
                calls.push(Call { of: hook.callee.clone(), call });
                started.push(Ok(uid));
            }
            Err(why) => started.push(Err(why)),
        }
    }
    let who = match attributes.requester {
        Requester::User(_) => CallerKind::Request,
        Requester::Actor(_) => CallerKind::Actor,
    };
    let (answers, time) = api.inner.caller.wait_for(who, calls);
    deadline::waited(time);
    let mut answers = answers.into_iter();
    let mut read_response = |(hook, started): (&Webhook, Result<String, String>)| -> CallResult {
        let uid = match started {
            Ok(uid) => uid,
            Err(why) => return CallResult { response: Err(why), time: Duration::ZERO },
        };
        let given_up = || Err("the call was cancelled".into());
        match answers.next().unwrap_or_else(given_up) {
            Ok((answered, time)) => CallResult { response: read(hook, webhook_type, &uid, answered), time },
            Err(why) => CallResult { response: Err(why), time: Duration::ZERO },
        }
    };
    Ok(hooks.iter().map(|(hook, _)| *hook).zip(started).map(&mut read_response).collect())
}

fn read(
    hook: &Webhook,
    webhook_type: WebhookType,
    uid: &str,
    answered: Result<Bytes, String>,
) -> Result<ReviewResult, String> {
    let version = hook.version.ok_or("no known admission review version")?;
    review::read(version, webhook_type, uid, &answered?)
}

/// Evaluates a response: a refusal, or the changes to make; `None` if a failure is ignored.
fn apply_response(
    api: &Api,
    attributes: &Attributes<'_>,
    hook: &Webhook,
    result: CallResult,
    at: WebhookPosition,
) -> Result<Option<ReviewResult>, ApiError> {
    let report = |outcome: WebhookOutcome| {
        let call = WebhookCall {
            name: &hook.name,
            admission_type: at.webhook_type.step(),
            operation: attributes.operation.name(),
            seconds: result.time.as_secs_f64(),
        };
        api.metrics().admission.record_webhook_call(call, outcome);
    };
    let mut answer = match result.response {
        Ok(answer) => answer,
        Err(why) => {
            let failure = format!("failed calling webhook {}: {}", quote(&hook.name), truncate_error(why));
            if hook.ignores_failure {
                report(WebhookOutcome::Ignored);
                audit_annotations::ignored(attributes, hook, at);
                tracing::warn!("{failure}; ignored because of the webhook's failurePolicy");
                return Ok(None);
            }
            report(WebhookOutcome::Failed);
            return Err(ApiError::Internal(failure));
        }
    };
    answer.warnings.drain(..).for_each(|warning| attributes.warn(warning));
    audit_annotations::record_webhook_annotations(attributes, hook, std::mem::take(&mut answer.annotations));
    if let Some(status) = answer.refusal.take() {
        let refusal = review::denied(&hook.name, status);
        report(WebhookOutcome::Refused(refusal.code()));
        return Err(refusal);
    }
    report(WebhookOutcome::Allowed);
    Ok(Some(answer))
}
