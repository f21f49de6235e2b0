//! What expressions ask the authorizer, and what it says.

use std::rc::Rc;

/// Decides what somebody may do.
pub(crate) trait Authorizer: std::fmt::Debug {
    /// The decision; an error when it cannot be made.
    fn decide(&self, question: &Question) -> Result<Decision, String>;
}

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Question {
    /// The account that is meant (namespace, name); none = who makes the request.
    pub(crate) account: Option<(String, String)>,
    /// A path that names no resource.
    pub(crate) path: Option<String>,
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Question {
    /// Bytes of all that it says.
    pub(super) fn bytes(&self) -> usize {
        let account = self.account.as_ref().map_or(0, |(namespace, name)| namespace.len() + name.len());
        let path = self.path.as_ref().map_or(0, String::len);
        let parts = [&self.verb, &self.group, &self.resource, &self.subresource, &self.namespace, &self.name];
        account + path + parts.iter().map(|part| part.len()).sum::<usize>()
    }
}

/// What was decided, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    pub(crate) reason: String,
}

/// A question that grows, or what was decided of it.
#[derive(Clone, Debug)]
pub(crate) enum Authority<'a> {
    /// Nothing is asked yet; what the request itself is about.
    Fresh {
        judge: &'a dyn Authorizer,
        request: Rc<Question>,
        account: Option<(String, String)>,
    },
    /// Something is asked.
    Asked {
        judge: &'a dyn Authorizer,
        question: Question,
    },
    Decided(Result<Decision, String>),
}

impl<'a> Authority<'a> {
    /// Who is asked by the author of a request about this.
    pub(crate) fn new(judge: &'a dyn Authorizer, request: Question) -> Self {
        Self::Fresh { judge, request: Rc::new(request), account: None }
    }

    /// The name of its type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Fresh { .. } => "kubernetes.authorization.Authorizer",
            Self::Asked { question, .. } if question.path.is_some() => "kubernetes.authorization.PathCheck",
            Self::Asked { .. } => "kubernetes.authorization.ResourceCheck",
            Self::Decided(_) => "kubernetes.authorization.Decision",
        }
    }
}
