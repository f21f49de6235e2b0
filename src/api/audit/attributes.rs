//! A request as the audit log sees it: who asks for what.

use std::sync::Arc;

use crate::identity::User;

/// The subresources whose requests last as long as their client likes.
pub(crate) const SESSIONS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// Who asks for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// `get`, `list`, …; of a path the method in lower case.
    pub(crate) verb: String,
    /// Who has shown who they are; none = nobody has.
    pub(crate) user: Option<Arc<User>>,
    pub(crate) on: On,
}

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Resource(Resource),
    /// A path that names no resource: `/healthz`.
    Path(String),
}

/// A resource; what is not said is empty.
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

impl Asked {
    /// Whether the answer lasts: Kubernetes' long-running requests.
    pub(crate) fn lasts(&self) -> bool {
        match &self.on {
            On::Resource(resource) => {
                self.verb == "watch" || SESSIONS.contains(&resource.subresource.as_str())
            }
            On::Path(_) => false,
        }
    }

    /// Whether bodies of the request and of its answer are objects.
    pub(super) fn carries_objects(&self) -> bool {
        matches!(self.on, On::Resource(_)) && !self.lasts()
    }
}
