//! The attributes of a request for the audit log: the user, the verb and the target.

use std::sync::Arc;

use api::identity::User;

/// Subresources whose requests last until the client ends them.
pub(crate) const SESSIONS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// The attributes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuditAttributes {
    /// `get`, `list`, …; for a path without a resource the HTTP method in lower case.
    pub(crate) verb: String,
    /// The authenticated user; `None` if there is none.
    pub(crate) user: Option<Arc<User>>,
    pub(crate) on: RequestTarget,
}

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestTarget {
    Resource(Resource),
    /// A path without a resource: `/healthz`.
    Path(String),
}

/// A resource; unspecified fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    /// Its plural.
    pub(crate) plural: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl AuditAttributes {
    /// Returns true for Kubernetes' long-running requests.
    pub(crate) fn is_long_running(&self) -> bool {
        match &self.on {
            RequestTarget::Resource(resource) => {
                self.verb == "watch" || SESSIONS.contains(&resource.subresource.as_str())
            }
            RequestTarget::Path(_) => false,
        }
    }

    /// Returns true if the bodies of the request and its response are objects.
    pub(super) fn carries_objects(&self) -> bool {
        matches!(self.on, RequestTarget::Resource(_)) && !self.is_long_running()
    }
}
