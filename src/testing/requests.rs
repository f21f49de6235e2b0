//! Selects requests, by the same terms as the rules of a role.

use apiserver::RequestAttributes;

/// Requests of clients over HTTP, from this process or others. The cluster's own controllers make no HTTP requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    verbs: Vec<String>,
    resource: Option<Resource>,
    namespace: Option<String>,
    name: Option<String>,
    user_agent: Option<String>,
    not_from: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Resource {
    plural: String,
    /// `None` means any group.
    group: Option<String>,
    /// `*` means the object and all its subresources.
    subresource: String,
}

impl Requests {
    /// Every request.
    pub fn all() -> Self {
        Self::default()
    }

    /// Requests for a resource: `widgets`, `widgets.example.com`, `widgets/status`, or `widgets/*` for the objects and
    /// all their subresources.
    pub fn to(resource: &str) -> Self {
        let (named, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let (plural, group) = match named.split_once('.') {
            Some((plural, group)) => (plural, Some(group.to_string())),
            None => (named, None),
        };
        let resource = Resource { plural: plural.into(), group, subresource: subresource.into() };
        Self { resource: Some(resource), ..Self::default() }
    }

    /// Only requests with this verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    /// Several calls select several verbs.
    #[must_use]
    pub fn verb(mut self, verb: impl Into<String>) -> Self {
        self.verbs.push(verb.into());
        self
    }

    /// Only requests that write.
    #[must_use]
    pub fn writing(self) -> Self {
        ["create", "update", "patch", "delete", "deletecollection"].into_iter().fold(self, Self::verb)
    }

    /// Only requests in this namespace.
    #[must_use]
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..self }
    }

    /// Only requests about the object of this name. A create request has no name yet.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Only requests of clients with a `User-Agent` that begins with this:
    /// [`ClientOptions::user_agent`](super::ClientOptions::user_agent).
    #[must_use]
    pub fn from(self, user_agent: impl Into<String>) -> Self {
        Self { user_agent: Some(user_agent.into()), ..self }
    }

    /// Only requests of clients with a `User-Agent` that does not begin with this.
    #[must_use]
    pub fn not_from(self, user_agent: impl Into<String>) -> Self {
        Self { not_from: Some(user_agent.into()), ..self }
    }

    pub(super) fn matches(&self, attributes: &RequestAttributes) -> bool {
        let is =
            |expected: &Option<String>, is: &str| expected.as_deref().is_none_or(|expected| expected == is);
        let agent = self.user_agent.as_deref().unwrap_or_default();
        (self.verbs.is_empty() || self.verbs.contains(&attributes.verb))
            && self.resource.as_ref().is_none_or(|resource| resource.matches(attributes))
            && is(&self.namespace, &attributes.namespace)
            && is(&self.name, &attributes.name)
            && attributes.user_agent.starts_with(agent)
            && self.not_from.as_ref().is_none_or(|other| !attributes.user_agent.starts_with(other.as_str()))
    }
}

impl Resource {
    fn matches(&self, attributes: &RequestAttributes) -> bool {
        self.plural == attributes.resource
            && self.group.as_ref().is_none_or(|group| *group == attributes.group)
            && (self.subresource == "*" || self.subresource == attributes.subresource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_distinguished_by_the_same_fields_as_in_roles_api_20() {
        let attributes = |verb: &str, path: &str| {
            let (path, subresource) = path.split_once('/').unwrap_or((path, ""));
            let (resource, group) = path.split_once('.').unwrap_or((path, ""));
            RequestAttributes {
                verb: verb.into(),
                group: group.into(),
                resource: resource.into(),
                subresource: subresource.into(),
                namespace: "a".into(),
                name: "x".into(),
                user_agent: "operator/1".into(),
            }
        };
        for (requests, verb, path, matches) in [
            (Requests::all(), "get", "pods", true),
            (Requests::to("pods"), "get", "pods", true),
            (Requests::to("pods"), "get", "pods/log", false),
            (Requests::to("pods/log"), "get", "pods/log", true),
            (Requests::to("pods/*"), "get", "pods/log", true),
            (Requests::to("pods/*"), "get", "pods", true),
            (Requests::to("widgets"), "get", "widgets.a.b", true),
            (Requests::to("widgets.a.b"), "get", "widgets.a.b", true),
            (Requests::to("widgets.b"), "get", "widgets.a.b", false),
            (Requests::to("pods").verb("get").verb("list"), "list", "pods", true),
            (Requests::to("pods").verb("get").verb("list"), "watch", "pods", false),
            (Requests::to("pods").writing(), "patch", "pods", true),
            (Requests::to("pods").writing(), "get", "pods", false),
            (Requests::all().namespace("a").named("x"), "get", "pods", true),
            (Requests::all().namespace("b"), "get", "pods", false),
            (Requests::all().named("y"), "get", "pods", false),
            (Requests::all().from("operator"), "get", "pods", true),
            (Requests::all().from("kubectl"), "get", "pods", false),
            (Requests::all().not_from("operator"), "get", "pods", false),
            (Requests::all().not_from("kubectl"), "get", "pods", true),
        ] {
            assert_eq!(requests.matches(&attributes(verb, path)), matches, "{requests:?} {verb} {path}");
        }
    }
}
