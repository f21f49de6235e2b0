//! Authorizer checks of expressions, and their results.

use std::rc::Rc;

/// Decides on a check.
pub(crate) trait Authorizer: std::fmt::Debug {
    /// Returns the decision; an error if the check cannot be decided.
    fn decide(&self, question: &AuthorizationCheck) -> Result<Decision, String>;
}

/// A check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuthorizationCheck {
    /// The service account to check (namespace, name); `None`: the request's user.
    pub(crate) account: Option<(String, String)>,
    /// A path without a resource.
    pub(crate) path: Option<String>,
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
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
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    pub(crate) reason: String,
}

/// A check under construction, or its result.
#[derive(Clone, Debug)]
pub(crate) enum Authority<'a> {
    /// No check yet; `request` has the attributes of the request itself.
    Request {
        judge: &'a dyn Authorizer,
        request: Rc<AuthorizationCheck>,
        account: Option<(String, String)>,
    },
    /// A check under construction.
    Building {
        judge: &'a dyn Authorizer,
        question: AuthorizationCheck,
    },
    Decided(Result<Decision, String>),
}

impl<'a> Authority<'a> {
    /// Returns the authorizer for a request with these attributes.
    pub(crate) fn new(judge: &'a dyn Authorizer, request: AuthorizationCheck) -> Self {
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
