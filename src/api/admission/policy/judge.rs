//! Judging one request by the expressions of a policy.

use serde_json::Value;

use super::super::attributes::Attributes;
use crate::Api;
use crate::authorization::{self, On, ResourceAttributes};
use crate::cel::{Authority, Authorizer, Budget, Composed, Decision, Error, Program, Question, Val};
use crate::identity::User;
use crate::kinds::admission_policy::{Expressions, Mutation, Validation};
use crate::managed_fields::{self, Type};
use crate::patch::{MAX_PATCH_BYTES, PatchType, apply_patch_value};
use object::{Key, Kind, ServedKind};

/// What the conditions of a match may take together: Kubernetes' `RuntimeCELCostBudgetMatchConditions`.
const CONDITIONS_BUDGET: u64 = 2_500_000;
/// What a message may have of an expression.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// What a mutation may make: about as much as a patch may have, a tenth of a step a byte.
const MADE_BUDGET: u64 = MAX_PATCH_BYTES as u64 / 10;

/// Something that does not hold, or could not be judged.
pub(super) struct Denial {
    pub(super) message: String,
    pub(super) reason: Option<String>,
}

/// A request as expressions see it.
pub(super) struct Judged<'a> {
    object: Value,
    old: Value,
    request: Value,
    namespace: Value,
    authorizer: ForUser<'a>,
    resource: Question,
    matched: ServedKind,
}

impl<'a> Judged<'a> {
    /// In the version that a rule names.
    pub(super) fn of(api: &'a Api, asked: &Attributes<'_>, matched: ServedKind) -> Self {
        let namespace = Some(asked.namespace).filter(|name| !name.is_empty() && !asked.is_of_namespace());
        let namespace = namespace.and_then(|name| api.get(Kind::Namespace, &Key::new("", name)).ok());
        let owned = |text: &str| text.to_string();
        let resource = Question {
            group: owned(asked.resource.group()),
            resource: owned(asked.resource.kind().info().plural),
            subresource: owned(asked.subresource),
            namespace: owned(if asked.is_of_namespace() { "" } else { asked.namespace }),
            name: owned(asked.name),
            ..Question::default()
        };
        Self {
            object: asked.object.value(api, matched),
            old: asked.old_object.value(api, matched),
            request: asked.request(matched),
            namespace: namespace.map(|namespace| namespace.to_value()).unwrap_or_default(),
            authorizer: ForUser { api, user: asked.requester.user().into_owned() },
            resource,
            matched,
        }
    }

    /// What of a policy does not hold, with these parameters. Where something cannot be judged, that is so too if the
    /// policy is strict.
    pub(super) fn denials(&self, expressions: &Expressions, param: &Value, is_strict: bool) -> Vec<Denial> {
        match self.is_meant(expressions, param) {
            Ok(true) => {}
            Err(message) if is_strict => return vec![Denial { message, reason: None }],
            Ok(false) | Err(_) => return Vec::new(),
        }
        let composed = Composed::new(self.variables(param), &expressions.variables);
        let mut budget = Budget::default();
        let judged = expressions.validations.iter().filter_map(|validation| {
            match validation.program.run_composed(&composed, &mut budget) {
                Ok(Val::Bool(true)) => None,
                Ok(_) => Some(Denial {
                    message: message(validation, &composed, &mut budget),
                    reason: validation.reason.clone(),
                }),
                Err(error) => {
                    is_strict.then(|| Denial { message: unjudged(&validation.text, &error), reason: None })
                }
            }
        });
        judged.collect()
    }

    /// The object as a mutation makes it; none when there is no object, or it stays as it is.
    pub(super) fn mutated(
        &self,
        expressions: &Expressions,
        mutation: &Mutation,
        param: &Value,
    ) -> Result<Option<Value>, String> {
        if self.object.is_null() {
            return Ok(None);
        }
        let composed = Composed::new(self.variables(param), &expressions.variables);
        let mut budget = Budget::default();
        let (Mutation::Apply(program) | Mutation::JsonPatch(program)) = mutation;
        let made = program.run_composed(&composed, &mut budget).map_err(|error| error.to_string())?;
        let made = made.to_json(&mut Budget::of(MADE_BUDGET)).map_err(|error| error.to_string())?;
        let next = match mutation {
            Mutation::Apply(_) => self.applied(made)?,
            Mutation::JsonPatch(_) => self.patched(made)?,
        };
        Ok(next.filter(|next| *next != self.object))
    }

    /// The object with a configuration merged into it.
    fn applied(&self, mut config: Value) -> Result<Option<Value>, String> {
        let kinds = self.authorizer.api.kinds();
        let of = Type::served(&kinds, self.matched);
        let failed = |why: String| format!("error applying patch: {why}");
        if let Some(fields) = config.as_object_mut() {
            for field in ["apiVersion", "kind"] {
                fields.insert(field.into(), self.object[field].clone());
            }
        }
        if let Some(faults) = managed_fields::faults(of, &config) {
            return Err(failed(format!("failed to convert patch object to typed object: {faults}")));
        }
        let wholes = managed_fields::wholes(of, &config);
        if !wholes.is_empty() {
            let why = "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: ";
            return Err(failed(format!("{why}{}", wholes.join(", "))));
        }
        Ok(Some(managed_fields::merge(of, &self.object, &config)))
    }

    /// The object as the steps of a patch make it; none when the patch tests for something that is not so.
    fn patched(&self, steps: Value) -> Result<Option<Value>, String> {
        match apply_patch_value(self.matched.kind(), PatchType::Json, &self.object, steps) {
            Ok(patched) => Ok(Some(patched)),
            Err(error) if error.is_failed_test() => Ok(None),
            Err(error) => Err(format!("JSONPath: {error}")),
        }
    }

    /// Whether all conditions hold. One that does not hold settles it, whatever cannot be judged.
    pub(super) fn is_meant(&self, expressions: &Expressions, param: &Value) -> Result<bool, String> {
        let variables = self.variables(param);
        let mut budget = Budget::of(CONDITIONS_BUDGET);
        let mut failed = None;
        for (name, condition) in &expressions.conditions {
            match condition.run(&variables, &mut budget) {
                Ok(Val::Bool(true)) => {}
                Ok(_) => return Ok(false),
                Err(error) => {
                    failed.get_or_insert_with(|| {
                        format!("match condition '{name}' resulted in error: {error}")
                    });
                }
            }
        }
        failed.map_or(Ok(true), Err)
    }

    fn variables<'b>(&'b self, param: &'b Value) -> Vec<(&'b str, Val<'b>)> {
        let authority = Authority::new(&self.authorizer, self.resource.clone());
        vec![
            ("object", Val::of_json(&self.object, None)),
            ("oldObject", Val::of_json(&self.old, None)),
            ("request", Val::of_json(&self.request, None)),
            ("namespaceObject", Val::of_json(&self.namespace, None)),
            ("params", Val::of_json(param, None)),
            ("authorizer", Val::from(authority)),
        ]
    }
}

fn unjudged(text: &str, error: &Error) -> String {
    format!("expression '{text}' resulted in error: {error}")
}

/// What is said of a validation that does not hold: what its expression makes, unless that fails or is no line of text.
fn message<'a>(validation: &'a Validation, composed: &Composed<'a>, budget: &mut Budget) -> String {
    let made = validation.message_expression.as_ref().and_then(|program: &Program| {
        let made = program.run_composed(composed, budget).ok()?;
        let text = made.as_text()?.trim();
        let fits = !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains(['\n', '\r']);
        fits.then(|| text.to_string())
    });
    let given = || validation.message.clone();
    made.or_else(given).unwrap_or_else(|| format!("failed expression: {}", validation.text))
}

/// Decides for whoever makes the request, or for an account that an expression names.
struct ForUser<'a> {
    api: &'a Api,
    user: User,
}

impl std::fmt::Debug for ForUser<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForUser").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Authorizer for ForUser<'_> {
    fn decide(&self, question: &Question) -> Result<Decision, String> {
        let account = question.account.as_ref();
        let account = account.map(|(namespace, name)| User::of_service_account(namespace, name));
        let on = match &question.path {
            Some(path) => On::Path(path),
            None => On::Resource(ResourceAttributes {
                group: &question.group,
                resource: &question.resource,
                subresource: &question.subresource,
                namespace: &question.namespace,
                name: &question.name,
                on_node: "",
            }),
        };
        let user = account.as_ref().unwrap_or(&self.user);
        let decision = self.api.decide(&authorization::Attributes { user, verb: &question.verb, on });
        Ok(Decision { allowed: decision.allowed, reason: decision.reason })
    }
}
