//! Authorizer checks of expressions, and their results.

use std::rc::Rc;

/// Decides on a check.
pub trait Authorizer: std::fmt::Debug {
    /// Returns the decision; an error if the check cannot be decided.
    fn decide(&self, question: &AuthorizationCheck) -> Result<Decision, String>;
}

/// A check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizationCheck {
    /// The service account to check (namespace, name); `None`: the request's user.
    pub account: Option<(String, String)>,
    /// A path without a resource.
    pub path: Option<String>,
    /// The verb, e.g. `get`.
    pub verb: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural of the resource.
    pub resource: String,
    /// The subresource; empty for the resource itself.
    pub subresource: String,
    /// The namespace; empty for all of them.
    pub namespace: String,
    /// The name of the object; empty for all of them.
    pub name: String,
}

impl AuthorizationCheck {
    /// Returns the size of all its strings in bytes.
    pub(super) fn bytes(&self) -> usize {
        let account = self.account.as_ref().map_or(0, |(namespace, name)| namespace.len() + name.len());
        let path = self.path.as_ref().map_or(0, String::len);
        let parts = [&self.verb, &self.group, &self.resource, &self.subresource, &self.namespace, &self.name];
        account + path + parts.iter().map(|part| part.len()).sum::<usize>()
    }
}

/// The decision and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// True if the authorizer allows the request.
    pub allowed: bool,
    /// The reason of the authorizer.
    pub reason: String,
}

/// A check under construction, or its result.
#[derive(Clone, Debug)]
pub enum Authority<'a> {
    /// No check yet; `request` has the attributes of the request itself.
    Request {
        /// Decides on checks.
        judge: &'a dyn Authorizer,
        /// The attributes of the request.
        request: Rc<AuthorizationCheck>,
        /// The service account to check (namespace, name); `None`: the request's user.
        account: Option<(String, String)>,
    },
    /// A check under construction.
    Building {
        /// Decides on the check.
        judge: &'a dyn Authorizer,
        /// The check so far.
        question: AuthorizationCheck,
    },
    /// The result of a check, or its error.
    Decided(Result<Decision, String>),
}

impl<'a> Authority<'a> {
    /// Returns the authorizer for a request with these attributes.
    pub fn new(judge: &'a dyn Authorizer, request: AuthorizationCheck) -> Self {
        Self::Request { judge, request: Rc::new(request), account: None }
    }

    /// Returns the name of its type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Request { .. } => "kubernetes.authorization.Authorizer",
            Self::Building { question, .. } if question.path.is_some() => {
                "kubernetes.authorization.PathCheck"
            }
            Self::Building { .. } => "kubernetes.authorization.ResourceCheck",
            Self::Decided(_) => "kubernetes.authorization.Decision",
        }
    }
}
