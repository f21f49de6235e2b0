//! The variables of a request for expressions, and the evaluation of match conditions.

use serde_json::Value;

use super::attributes::Attributes;
use crate::authorization::{self, RequestTarget, ResourceAttributes};
use crate::identity::User;
use crate::{Api, ApiError};
use apimachinery::cel::{Authority, AuthorizationCheck, Authorizer, Budget, Decision, Error, Val};
use kinds::match_conditions::Conditions;
use object::{Key, Kind, ServedKind};

/// The budget of all match conditions together: Kubernetes' `RuntimeCELCostBudgetMatchConditions`.
const CONDITIONS_BUDGET: u64 = 2_500_000;
/// A request as expressions see it.
pub(super) struct RequestActivation<'a> {
    pub(super) object: Value,
    old: Value,
    request: Value,
    namespace: Value,
    authorizer: UserAuthorizer<'a>,
    resource: AuthorizationCheck,
    pub(super) matched: ServedKind,
}

impl<'a> RequestActivation<'a> {
    /// Returns the request in the version of a rule.
    pub(super) fn of(
        api: &'a Api,
        attributes: &Attributes<'_>,
        matched: ServedKind,
    ) -> Result<Self, ApiError> {
        let namespace =
            Some(attributes.namespace).filter(|name| !name.is_empty() && !attributes.is_of_namespace());
        let namespace = namespace.and_then(|name| api.get(Kind::Namespace, &Key::new("", name)).ok());
        let owned = |text: &str| text.to_string();
        let resource = AuthorizationCheck {
            group: owned(attributes.resource.group()),
            resource: owned(attributes.resource.kind().info().plural),
            subresource: owned(attributes.subresource),
            namespace: owned(if attributes.is_of_namespace() { "" } else { attributes.namespace }),
            name: owned(attributes.name),
            ..AuthorizationCheck::default()
        };
        Ok(Self {
            object: attributes.object.value(api, matched)?,
            old: attributes.old_object.value(api, matched)?,
            request: attributes.request(matched),
            namespace: namespace.map(|namespace| namespace.to_value()).unwrap_or_default(),
            authorizer: UserAuthorizer { api, user: attributes.requester.user().into_owned() },
            resource,
            matched,
        })
    }

    /// Returns true if all conditions hold. If one is false, the result is false even if others fail to evaluate;
    /// otherwise the failures are the error.
    pub(super) fn conditions_match(&self, conditions: &Conditions, param: &Value) -> Result<bool, String> {
        let variables = self.variables(param);
        let mut budget = Budget::of(CONDITIONS_BUDGET);
        let mut faults = Vec::new();
        for condition in conditions.iter() {
            match condition.program.as_ref().map(|program| program.run(&variables, &mut budget)) {
                Ok(Ok(Val::Bool(true))) => {}
                Ok(Ok(_)) => return Ok(false),
                Ok(Err(error)) => faults.push(evaluation_error_message(&condition.text, &error)),
                Err(why) => faults.push(why.clone()),
            }
        }
        match faults.len() {
            0 => Ok(true),
            1 => Err(faults.remove(0)),
            _ => Err(format!("[{}]", faults.join(", "))),
        }
    }

    pub(super) fn api(&self) -> &'a Api {
        self.authorizer.api
    }

    /// Returns the variables of expressions.
    pub(super) fn variables<'b>(&'b self, param: &'b Value) -> Vec<(&'b str, Val<'b>)> {
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

/// Returns the message for an expression that fails to evaluate.
pub(super) fn evaluation_error_message(text: &str, error: &Error) -> String {
    format!("expression '{text}' resulted in error: {error}")
}

/// Checks the permissions of the request's user, or of a service account that an expression names.
struct UserAuthorizer<'a> {
    api: &'a Api,
    user: User,
}

impl std::fmt::Debug for UserAuthorizer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForUser").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Authorizer for UserAuthorizer<'_> {
    fn decide(&self, question: &AuthorizationCheck) -> Result<Decision, String> {
        let account = question.account.as_ref();
        let account = account.map(|(namespace, name)| User::of_service_account(namespace, name));
        let on = match &question.path {
            Some(path) => RequestTarget::Path(path),
            None => RequestTarget::Resource(ResourceAttributes {
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
