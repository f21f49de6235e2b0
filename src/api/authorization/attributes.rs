//! The attributes of a request for authorization: the user, the verb, and the resource or path.

use crate::ApiError;
use crate::identity::User;
use base::quote::quote;

/// A request as the authorizer sees it.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// The user who makes the request.
    pub user: &'a User,
    /// `get`, `list`, `watch`, `create`, …; for a path without a resource the HTTP method in lower case.
    pub verb: &'a str,
    /// The resource or path.
    pub on: RequestTarget<'a>,
}

/// The target of a request.
#[derive(Clone, Copy, Debug)]
pub enum RequestTarget<'a> {
    /// A resource of the API.
    Resource(ResourceAttributes<'a>),
    /// A path without a resource: `/healthz`.
    Path(&'a str),
}

/// A resource; unspecified fields are empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceAttributes<'a> {
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The plural of the resource.
    pub resource: &'a str,
    /// The subresource, e.g. `log`.
    pub subresource: &'a str,
    /// The name of the object.
    pub name: &'a str,
    /// The namespace of the object.
    pub namespace: &'a str,
    /// The node that the request's field selector demands (`spec.nodeName`); empty if there is none.
    pub on_node: &'a str,
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
    pub fn refusal(&self, reason: &str) -> ApiError {
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
