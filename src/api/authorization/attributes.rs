//! The attributes of a request for authorization: the user, the verb, and the resource or path.

use crate::ApiError;
use crate::identity::User;
use base::quote::quote;

/// A request as the authorizer sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a> {
    pub(crate) user: &'a User,
    /// `get`, `list`, `watch`, `create`, …; for a path without a resource the HTTP method in lower case.
    pub(crate) verb: &'a str,
    pub(crate) on: RequestTarget<'a>,
}

/// The target of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestTarget<'a> {
    Resource(ResourceAttributes<'a>),
    /// A path without a resource: `/healthz`.
    Path(&'a str),
}

/// A resource; unspecified fields are empty.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResourceAttributes<'a> {
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
    /// The node that the request's field selector demands (`spec.nodeName`); empty if there is none.
    pub(crate) on_node: &'a str,
}

impl ResourceAttributes<'_> {
    /// Returns `pods`, or `pods/log`.
    pub(super) fn combined(&self) -> String {
        match self.subresource {
            "" => self.resource.to_string(),
            subresource => format!("{}/{subresource}", self.resource),
        }
    }
}

impl Attributes<'_> {
    /// Returns the refusal; `reason` lists the errors of roles that might have allowed it.
    pub(crate) fn refusal(&self, reason: &str) -> ApiError {
        let mut message = self.description();
        if !reason.is_empty() {
            message = format!("{message}: {reason}");
        }
        match self.on {
            RequestTarget::Path(_) => ApiError::NotPermitted(format!("forbidden: {message}")),
            RequestTarget::Resource(resource) => ApiError::AccessDenied {
                resource: resource.resource.into(),
                group: resource.group.into(),
                name: resource.name.into(),
                message,
            },
        }
    }

    fn description(&self) -> String {
        let (user, verb) = (quote(&self.user.name), self.verb);
        let resource = match self.on {
            RequestTarget::Path(path) => return format!("User {user} cannot {verb} path {}", quote(path)),
            RequestTarget::Resource(resource) => resource,
        };
        let place = match resource.namespace {
            "" => "at the cluster scope".to_string(),
            namespace => format!("in the namespace {}", quote(namespace)),
        };
        format!(
            "User {user} cannot {verb} resource {} in API group {} {place}",
            quote(&resource.combined()),
            quote(resource.group)
        )
    }
}
