//! Dynamic admission control: the policies and webhooks that users configure run after all plugins, in
//! Kubernetes' order: mutating policies, mutating webhooks; and, on the final object, validating policies,
//! validating webhooks.

use serde_json::Value;

use super::attributes::{Attributes, Operation, Subject, WriteAttributes};
use super::reinvocation::Draft;
pub(super) use super::reinvocation::ReinvocationContext;
use super::{policy, webhook};
use crate::webhook_client::Callee;
use crate::{Api, ApiError};
use object::{Kind, Object, ServedKind};

/// Returns true if there is any policy, or a webhook that could match a request with one of these operations on this
/// kind and subresource.
pub fn has_matching_configuration(
    api: &Api,
    operations: &[Operation],
    kind: Kind,
    subresource: &str,
) -> bool {
    policy::has_policies(api) || webhook::has_matching_webhook(api, operations, kind, subresource)
}

/// Returns the callees that a request with one of these operations in a namespace may wait for, without duplicates.
pub fn callees(api: &Api, operations: &[Operation], below: (Kind, &str), namespace: &str) -> Vec<Callee> {
    let mut parties = webhook::callees(api, operations, below, namespace);
    for party in policy::callees(api) {
        if !parties.contains(&party) {
            parties.push(party);
        }
    }
    parties
}

/// Runs mutating policies and webhooks on an object.
pub(super) fn mutate(
    api: &Api,
    attributes: &WriteAttributes<'_>,
    object: &mut Object,
    rounds: &mut ReinvocationContext,
) -> Result<(), ApiError> {
    call_policies_and_webhooks(api, &mut ObjectDraft { attributes, object }, rounds)
}

/// Runs policies, then webhooks, in one round.
fn call_policies_and_webhooks(
    api: &Api,
    draft: &mut dyn Draft,
    rounds: &mut ReinvocationContext,
) -> Result<(), ApiError> {
    let current = |draft: &dyn Draft| {
        let attributes = draft.attributes();
        attributes.object.value(api, attributes.resource)
    };
    if rounds.is_second() {
        rounds.compare(&current(draft)?);
    }
    policy::mutate(api, draft, rounds)?;
    webhook::mutate(api, draft, rounds)?;
    if rounds.is_second_due() {
        rounds.end_first(current(draft)?);
    }
    Ok(())
}

/// Runs validating policies and webhooks.
pub(super) fn validate(api: &Api, attributes: &Attributes<'_>) -> Result<(), ApiError> {
    policy::validate(api, attributes)?;
    webhook::validate(api, attributes)
}

/// Runs mutating and validating policies and webhooks for a request without a changeable object: a deletion, a session.
pub(super) fn admit(api: &Api, attributes: &Attributes<'_>) -> Result<(), ApiError> {
    call_policies_and_webhooks(api, &mut ReadOnlyDraft(attributes), &mut ReinvocationContext::default())?;
    validate(api, attributes)
}

/// Runs mutating and validating policies and webhooks for a request with a body that may be changed and is not stored.
pub(super) fn admit_carried(
    api: &Api,
    attributes: &Attributes<'_>,
    carried: &mut Value,
) -> Result<(), ApiError> {
    let mut rounds = ReinvocationContext::default();
    let mut draft = BodyDraft { attributes, value: carried };
    call_policies_and_webhooks(api, &mut draft, &mut rounds)?;
    if rounds.is_second_due() {
        rounds.begin_second();
        call_policies_and_webhooks(api, &mut draft, &mut rounds)?;
    }
    validate(api, &draft.attributes())
}

/// An object on its way to the store.
struct ObjectDraft<'a> {
    attributes: &'a WriteAttributes<'a>,
    object: &'a mut Object,
}

impl Draft for ObjectDraft<'_> {
    fn attributes(&self) -> Attributes<'_> {
        self.attributes.of_draft(self.object)
    }

    fn replace(&mut self, api: &Api, served: ServedKind, mut value: Value) -> Result<bool, ApiError> {
        apimachinery::validate::depth::check_value(&value)?;
        crate::object_checks::check_parts(&value)?;
        if let (Some(schema), Some(fields)) = (api.kinds().schema(served), value.as_object_mut()) {
            schema.prune(fields);
        }
        let unreadable = |reason: String| ApiError::Internal(reason);
        let before: &Object = self.object;
        let kinds = api.kinds();
        let mut next = if self.attributes.subresource == "scale" {
            let scaled: k8s_openapi::api::autoscaling::v1::Scale =
                base::json::from_value(value).map_err(|error| unreadable(error.to_string()))?;
            let replicas = scaled.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0);
            crate::object_checks::check_scale(before.name(), replicas)?;
            let mut next = before.clone();
            kinds.strategy(before).set_replicas(&mut next, replicas);
            next
        } else {
            let read = Object::from_value(served.kind(), served.stored(value));
            let read = read.map_err(|error| unreadable(error.to_string()))?;
            // The write continues in the version of the request.
            api.convert_one(&read, kinds.served_as(before))?.into_owned()
        };
        if next.namespace() != before.namespace() {
            return Err(ApiError::BadRequest(
                "the namespace of the provided object does not match the namespace sent on the request"
                    .into(),
            ));
        }
        // Webhooks cannot change fields that the API sets.
        next.set_managed_fields(before.managed_fields().clone());
        let (meta, had) = (next.meta_mut(), before.meta());
        meta.uid.clone_from(&had.uid);
        meta.creation_timestamp.clone_from(&had.creation_timestamp);
        meta.resource_version.clone_from(&had.resource_version);
        meta.generation = had.generation;
        meta.deletion_timestamp.clone_from(&had.deletion_timestamp);
        meta.deletion_grace_period_seconds = had.deletion_grace_period_seconds;
        meta.self_link = None;
        if meta.name.as_ref().is_none_or(String::is_empty) {
            meta.name.clone_from(&had.name);
        }
        let strategy = kinds.strategy(&next);
        if self.attributes.old.is_none() && strategy.has_status() && !strategy.keeps_status_at_creation() {
            next.clear_status();
        }
        strategy.apply_defaults(&mut next);
        crate::object_checks::check_size(&next, Some(before))?;
        let has_changed = !next.same_content(before);
        *self.object = next;
        Ok(has_changed)
    }
}

/// A request body that is not stored.
struct BodyDraft<'a> {
    attributes: &'a Attributes<'a>,
    value: &'a mut Value,
}

impl Draft for BodyDraft<'_> {
    fn attributes(&self) -> Attributes<'_> {
        self.attributes.with_object(Subject::Body(self.value))
    }

    fn replace(&mut self, _: &Api, _: ServedKind, value: Value) -> Result<bool, ApiError> {
        *self.value = value;
        Ok(true)
    }
}

/// A request whose object cannot be changed.
struct ReadOnlyDraft<'a>(&'a Attributes<'a>);

impl Draft for ReadOnlyDraft<'_> {
    fn attributes(&self) -> Attributes<'_> {
        *self.0
    }

    fn replace(&mut self, _: &Api, _: ServedKind, _: Value) -> Result<bool, ApiError> {
        Err(ApiError::Internal(
            "an admission webhook attempted to modify the object, which is not supported for this operation"
                .into(),
        ))
    }
}
