//! The authorizer in expressions: a check is composed step by step, then decided.

use std::rc::Rc;

use super::authorization_check::{Authority, AuthorizationCheck, Authorizer};
use super::values::{FunctionResult, Text, Val};
use super::{Budget, other};

/// The cost of one check, as in Kubernetes.
const CHECK_COST: u64 = 350_000;

impl<'a> From<Authority<'a>> for Val<'a> {
    fn from(authority: Authority<'a>) -> Self {
        Self::Authority(Rc::new(authority))
    }
}

impl<'a> Authority<'a> {
    fn begin(
        judge: &'a dyn Authorizer,
        request: &Rc<AuthorizationCheck>,
        account: Option<&(String, String)>,
        name: &str,
        args: &[Val<'a>],
    ) -> FunctionResult<'a> {
        let check = AuthorizationCheck { account: account.cloned(), ..AuthorizationCheck::default() };
        let next = match (name, args) {
            ("path", [Val::Text(path)]) if !path.is_empty() => {
                let question = AuthorizationCheck { path: Some(path.to_string()), ..check };
                Self::Building { judge, question }
            }
            ("path", [Val::Text(_)]) => return Err(other("path must not be empty")),
            ("group", [Val::Text(group)]) => {
                let question = AuthorizationCheck { group: group.to_string(), ..check };
                Self::Building { judge, question }
            }
            ("serviceAccount", [Val::Text(namespace), Val::Text(name)]) => {
                let account = Some((namespace.to_string(), name.to_string()));
                Self::Request { judge, request: request.clone(), account }
            }
            _ => return Ok(None),
        };
        Ok(Some(next.into()))
    }

    fn go_on(
        judge: &'a dyn Authorizer,
        question: &AuthorizationCheck,
        name: &str,
        args: &[Val<'a>],
        budget: &mut Budget,
    ) -> FunctionResult<'a> {
        let [Val::Text(text)] = args else { return Ok(None) };
        // Each step copies the whole check, so its size is charged, and not only that of the addition.
        budget.take((question.bytes() + text.len()) as u64 / 10)?;
        let mut question = question.clone();
        let of_resource = question.path.is_none();
        let set = |field: &mut String, text: &Text<'_>| *field = text.to_string();
        match name {
            "resource" if of_resource => set(&mut question.resource, text),
            "subresource" if of_resource => set(&mut question.subresource, text),
            "namespace" if of_resource => set(&mut question.namespace, text),
            "name" if of_resource => set(&mut question.name, text),
            // Selectors do not affect authorization decisions in Podium.
            "fieldSelector" | "labelSelector" if of_resource => {}
            "check" => {
                set(&mut question.verb, text);
                budget.take(CHECK_COST)?;
                return Ok(Some(Self::Decided(judge.decide(&question)).into()));
            }
            _ => return Ok(None),
        }
        Ok(Some(Self::Building { judge, question }.into()))
    }
}

impl<'a> Authority<'a> {
    /// Returns the value of a field; `None` if this value has no such field.
    pub(super) fn field(&self, name: &str) -> Option<Val<'a>> {
        match self {
            Self::Request { judge, request, account } if name == "requestResource" => {
                let question = AuthorizationCheck { account: account.clone(), ..(**request).clone() };
                Some(Self::Building { judge: *judge, question }.into())
            }
            _ => None,
        }
    }

    /// Calls a function of this value; `None` if it has no function of this name.
    pub(super) fn call(&self, name: &str, args: &[Val<'a>], budget: &mut Budget) -> FunctionResult<'a> {
        match self {
            Self::Request { judge, request, account } => {
                Self::begin(*judge, request, account.as_ref(), name, args)
            }
            Self::Building { judge, question } => Self::go_on(*judge, question, name, args, budget),
            Self::Decided(decision) => {
                let value = match (name, decision) {
                    ("allowed", decision) => {
                        Val::Bool(decision.as_ref().is_ok_and(|decision| decision.allowed))
                    }
                    ("reason", Ok(decision)) => Val::text(decision.reason.as_str()),
                    ("errored", decision) => Val::Bool(decision.is_err()),
                    ("error", Err(error)) => Val::text(error.as_str()),
                    ("reason" | "error", _) => Val::text(""),
                    _ => return Ok(None),
                };
                Ok(args.is_empty().then_some(value))
            }
        }
    }
}
