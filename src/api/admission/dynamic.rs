//! Dynamic admission control: the policies and webhooks that users configure run after all plugins, in
//! Kubernetes' order: mutating policies, mutating webhooks; and, on the final object, validating policies,
//! validating webhooks.

use serde_json::Value;

use super::attributes::{Attributes, Operation, Subject, WriteAttributes};
use super::draft::Draft;
pub(super) use super::draft::Rounds;
use super::{policy, webhook};
use crate::webhook_client::Party;
use crate::{Api, ApiError};
use object::{Kind, Object, ServedKind};

/// Returns true if a configured policy or webhook could match such a request.
pub(crate) fn may_be_asked(api: &Api, operations: &[Operation], kind: Kind, subresource: &str) -> bool {
    policy::are_any(api) || webhook::may_be_asked(api, operations, kind, subresource)
}

/// The callees that such a request in a namespace may wait for, without duplicates.
pub(crate) fn parties(
    api: &Api,
    operations: &[Operation],
    below: (Kind, &str),
    namespace: &str,
) -> Vec<Party> {
    let mut parties = webhook::parties(api, operations, below, namespace);
    for party in policy::parties(api) {
        if !parties.contains(&party) {
            parties.push(party);
        }
    }
    parties
}

/// Runs mutating policies and webhooks on an object.
pub(super) fn mutate(
    api: &Api,
    asked: &WriteAttributes<'_>,
    object: &mut Object,
    rounds: &mut Rounds,
) -> Result<(), ApiError> {
    ask(api, &mut Written { asked, object }, rounds)
}

/// Runs policies, then webhooks, in one round.
fn ask(api: &Api, draft: &mut dyn Draft, rounds: &mut Rounds) -> Result<(), ApiError> {
    let current = |draft: &dyn Draft| {
        let asked = draft.attributes();
        asked.object.value(api, asked.resource)
    };
    if rounds.is_second() {
        rounds.compare(&current(draft)?);
    }
    policy::mutate(api, draft, rounds)?;
    webhook::mutate(api, draft, rounds)?;
    if rounds.is_second_due() {
        rounds.leave(current(draft)?);
    }
    Ok(())
}

/// Runs validating policies and webhooks.
pub(super) fn validate(api: &Api, asked: &Attributes<'_>) -> Result<(), ApiError> {
    policy::validate(api, asked)?;
    webhook::validate(api, asked)
}

/// Runs both for a request without a changeable object: a deletion, a session.
pub(super) fn admit(api: &Api, asked: &Attributes<'_>) -> Result<(), ApiError> {
    ask(api, &mut Fixed(asked), &mut Rounds::default())?;
    validate(api, asked)
}

/// Runs both for a request whose body is not stored and may be changed.
pub(super) fn admit_carried(api: &Api, asked: &Attributes<'_>, carried: &mut Value) -> Result<(), ApiError> {
    let mut rounds = Rounds::default();
    let mut draft = Carried { asked, value: carried };
    ask(api, &mut draft, &mut rounds)?;
    if rounds.is_second_due() {
        rounds.begin_second();
        ask(api, &mut draft, &mut rounds)?;
    }
    validate(api, &draft.attributes())
}

/// An object on its way to the store.
struct Written<'a> {
    asked: &'a WriteAttributes<'a>,
    object: &'a mut Object,
}

impl Draft for Written<'_> {
    fn attributes(&self) -> Attributes<'_> {
        self.asked.of_draft(self.object)
    }

    fn replace(&mut self, api: &Api, served: ServedKind, mut value: Value) -> Result<bool, ApiError> {
        crate::validate::depth::check_value(&value)?;
        crate::rules::check_parts(&value)?;
        if let (Some(schema), Some(fields)) = (api.kinds().schema(served), value.as_object_mut()) {
            schema.prune(fields);
        }
        let unreadable = |why: String| ApiError::Internal(why);
        let before: &Object = self.object;
        let kinds = api.kinds();
        let mut next = if self.asked.subresource == "scale" {
            let scaled: k8s_openapi::api::autoscaling::v1::Scale =
                serde_json::from_value(value).map_err(|error| unreadable(error.to_string()))?;
            let replicas = scaled.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0);
            crate::rules::check_scale(before.name(), replicas)?;
            let mut next = before.clone();
            kinds.strategy(before).set_replicas(&mut next, replicas);
            next
        } else {
            let read = Object::from_value(served.kind(), served.stored(value));
            let read = read.map_err(|error| unreadable(error.to_string()))?;
            // It continues in the version of the request.
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
        if self.asked.old.is_none() && strategy.has_status() && !strategy.keeps_status_at_creation() {
            next.clear_status();
        }
        strategy.apply_defaults(&mut next);
        crate::rules::check_size(&next, Some(before))?;
        let has_changed = !next.same_content(before);
        *self.object = next;
        Ok(has_changed)
    }
}

/// A request body that is not stored.
struct Carried<'a> {
    asked: &'a Attributes<'a>,
    value: &'a mut Value,
}

impl Draft for Carried<'_> {
    fn attributes(&self) -> Attributes<'_> {
        self.asked.with_object(Subject::Carried(self.value))
    }

    fn replace(&mut self, _: &Api, _: ServedKind, value: Value) -> Result<bool, ApiError> {
        *self.value = value;
        Ok(true)
    }
}

/// A request whose object cannot be changed.
struct Fixed<'a>(&'a Attributes<'a>);

impl Draft for Fixed<'_> {
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
