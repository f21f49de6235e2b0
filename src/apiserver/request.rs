//! The target of a request, parsed from its path.

use http::Method;

use super::component_statuses::ComponentTarget;
use super::controllers::ControllerTarget;
use super::metrics::{self, MetricsTarget};
use super::negotiate::{Messages, SupportedTypes};
use super::protobuf::has_form;
use super::query::Query;
use super::verdicts::{self, VerdictTarget};
use api::aggregation::GroupVersion;
use api::served_kinds::Kinds;
use api::{Api, ApiError};
use object::{Key, Kind, ServedKind, Subresource};

/// The target of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Objects of a kind.
    Resource(ResourceTarget),
    /// An access review, answered directly and never stored.
    Review(ReviewKind),
    /// Bindings of pods in a namespace, each to the pod that the body names.
    Bindings {
        /// The pods' namespace.
        namespace: String,
    },
    /// The health of the control plane's components.
    Components(ComponentTarget),
    /// Resource usage of nodes and pods.
    Metrics(MetricsTarget),
    /// Scheduling verdicts of pending pods.
    Verdicts(VerdictTarget),
    /// Statuses of controllers.
    Controllers(ControllerTarget),
    /// The history of a kind's objects.
    History(ResourceTarget),
    /// Discovery, schemas, version.
    Document,
    /// An API of an extension API server.
    Aggregated(GroupVersion),
}

/// A collection, an object, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResourceTarget {
    /// The kind, in the path's version.
    pub(super) served: ServedKind,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<Subresource>,
    /// The path is one of the deprecated watch paths: `/api/v1/watch/pods`.
    pub(super) watched: bool,
}

impl ResourceTarget {
    pub(super) fn kind(&self) -> Kind {
        self.served.kind()
    }

    /// Returns the forms in which the response can be offered to the client; `None` if it has no objects: a log, or an
    /// exec, attach, port-forward or proxy session.
    pub(super) fn offer(&self, method: &Method, query: &Query) -> Option<SupportedTypes> {
        use Subresource::{Attach, Exec, Log, PortForward, Proxy};
        let messages = if has_form(self.served) { Messages::Whole } else { Messages::Metadata };
        match self.subresource {
            Some(Exec | Attach | Log | PortForward | Proxy) => None,
            None if self.is_watch(method, query) => Some(SupportedTypes::Stream(messages)),
            _ => Some(SupportedTypes::Objects(messages)),
        }
    }

    /// Returns true for a watch: of a collection by the query or a deprecated path, or of one object by a
    /// deprecated path. For one object or its subresource the query's `watch` is ignored, as in Kubernetes.
    pub(super) fn is_watch(&self, method: &Method, query: &Query) -> bool {
        let by_query = self.name.is_none() && self.subresource.is_none() && query.flag("watch");
        *method == Method::GET && (self.watched || by_query)
    }

    /// Returns the seats that a request occupies: a list of many objects takes several, as Kubernetes
    /// estimates.
    pub(super) fn seats(&self, api: &Api, method: &Method, query: &Query) -> u32 {
        const OBJECTS_A_SEAT: usize = 100;
        const MAX_SEATS: usize = 10;
        if *method != Method::GET || self.name.is_some() || self.is_watch(method, query) {
            return 1;
        }
        let limit = query.number::<usize>("limit").ok().flatten().filter(|limit| *limit > 0);
        let objects = api.count(self.kind()).min(limit.unwrap_or(usize::MAX));
        u32::try_from(objects.div_ceil(OBJECTS_A_SEAT).clamp(1, MAX_SEATS)).unwrap_or(1)
    }

    /// Returns the object's key; `None` for a collection.
    pub(super) fn key(&self) -> Option<Key> {
        self.name.as_ref().map(|name| Key::new(self.namespace.clone().unwrap_or_default(), name.clone()))
    }
}

/// Kinds of access reviews.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReviewKind {
    /// `SelfSubjectAccessReview`: checks the caller's own access.
    Access,
    /// `SubjectAccessReview`: checks the access of another user.
    Subject,
    /// `LocalSubjectAccessReview`: checks the access of another user within a namespace.
    LocalSubject {
        /// The namespace of the path.
        namespace: String,
    },
    /// `SelfSubjectRulesReview`: lists the caller's own permissions.
    Rules,
    /// `SelfSubjectReview`: returns the caller's identity.
    Identity,
    /// `TokenReview`: returns the user of a token.
    Token,
}

impl Target {
    pub(super) fn parse(kinds: &Kinds, path: &str) -> Result<Self, ApiError> {
        let decoded = percent_encoding::percent_decode_str(path)
            .decode_utf8()
            .map_err(|_| ApiError::BadRequest("the path is not valid UTF-8".into()))?;
        let parts: Vec<&str> = decoded.split('/').filter(|part| !part.is_empty()).collect();
        if let Some(inner) = history_path(&parts) {
            return match split(inner).map(|(group, version, rest)| resource(kinds, group, version, rest)) {
                Some(Ok(target)) if target.subresource.is_none() => Ok(Self::History(target)),
                _ => Err(ApiError::NoSuchResource),
            };
        }
        let Some((group, version, rest)) = split(&parts) else { return Ok(Self::Document) };
        if let Some(review) = review(group, version, rest) {
            return Ok(Self::Review(review));
        }
        if let Some(target) = ComponentTarget::parse(group, version, rest) {
            return Ok(Self::Components(target));
        }
        if (group, version) == (metrics::GROUP, metrics::VERSION) {
            return MetricsTarget::parse(rest).map(Self::Metrics).ok_or(ApiError::NoSuchResource);
        }
        if (group, version) == (verdicts::GROUP, verdicts::VERSION) {
            if let Some(target) = VerdictTarget::parse(rest) {
                return Ok(Self::Verdicts(target));
            }
            if let Some(target) = ControllerTarget::parse(rest) {
                return Ok(Self::Controllers(target));
            }
        }
        match (group, version, rest) {
            ("", "v1", ["namespaces", namespace, "bindings"]) => {
                Ok(Self::Bindings { namespace: (*namespace).into() })
            }
            (_, _, ["watch", rest @ ..]) => watched(kinds, group, version, rest).map(Self::Resource),
            _ => resource(kinds, group, version, rest).map(Self::Resource),
        }
    }
}

/// Returns the inner path of a history path.
pub(super) fn history_path<'a>(parts: &'a [&'a str]) -> Option<&'a [&'a str]> {
    match parts {
        ["apis", group, version, "history", inner @ ..]
            if (*group, *version) == (verdicts::GROUP, verdicts::VERSION) && !inner.is_empty() =>
        {
            Some(inner)
        }
        _ => None,
    }
}

/// Returns the group, the version, and the remaining segments; `None` if the path has fewer segments.
pub(super) fn split<'a>(parts: &'a [&'a str]) -> Option<(&'a str, &'a str, &'a [&'a str])> {
    match parts {
        ["api", version, rest @ ..] if !rest.is_empty() => Some(("", version, rest)),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => Some((group, version, rest)),
        _ => None,
    }
}

fn review(group: &str, version: &str, rest: &[&str]) -> Option<ReviewKind> {
    match (group, version, rest) {
        ("authorization.k8s.io", "v1", ["selfsubjectaccessreviews"]) => Some(ReviewKind::Access),
        ("authorization.k8s.io", "v1", ["selfsubjectrulesreviews"]) => Some(ReviewKind::Rules),
        ("authorization.k8s.io", "v1", ["subjectaccessreviews"]) => Some(ReviewKind::Subject),
        ("authorization.k8s.io", "v1", ["namespaces", namespace, "localsubjectaccessreviews"]) => {
            Some(ReviewKind::LocalSubject { namespace: (*namespace).into() })
        }
        // Older clients (kubectl 1.26 and 1.27) know only the earlier versions.
        ("authentication.k8s.io", "v1" | "v1beta1" | "v1alpha1", ["selfsubjectreviews"]) => {
            Some(ReviewKind::Identity)
        }
        ("authentication.k8s.io", "v1", ["tokenreviews"]) => Some(ReviewKind::Token),
        _ => None,
    }
}

/// Returns the target of a deprecated watch path: a collection or an object.
fn watched(kinds: &Kinds, group: &str, version: &str, rest: &[&str]) -> Result<ResourceTarget, ApiError> {
    match resource(kinds, group, version, rest)? {
        ResourceTarget { subresource: Some(_), .. } => Err(ApiError::NoSuchResource),
        target => Ok(ResourceTarget { watched: true, ..target }),
    }
}

fn resource(kinds: &Kinds, group: &str, version: &str, rest: &[&str]) -> Result<ResourceTarget, ApiError> {
    // `namespaces/x/pods` is in a namespace; `namespaces/x` and `namespaces/x/status` are the namespace
    // itself.
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..]
            if !rest.is_empty() && !matches!(rest, ["status" | "finalize"]) =>
        {
            (Some((*namespace).to_string()), rest)
        }
        _ => (None, rest),
    };
    let (plural, name, sub) = match rest {
        [plural] => (plural, None, None),
        [plural, name] => (plural, Some(*name), None),
        [plural, name, sub] => (plural, Some(*name), Some(*sub)),
        // The rest is a path of the proxied server.
        [plural, name, "proxy", ..] => (plural, Some(*name), Some("proxy")),
        _ => return Err(ApiError::NoSuchResource),
    };
    let served = kinds.by_path(group, version, plural).ok_or(ApiError::NoSuchResource)?;
    let kind = served.kind();
    if kind.namespaced() != namespace.is_some() && (namespace.is_some() || name.is_some()) {
        return Err(ApiError::NoSuchResource);
    }
    let subresource = match sub {
        None => None,
        Some(sub) => Some(kinds.subresource(served, sub).ok_or(ApiError::NoSuchResource)?),
    };
    Ok(ResourceTarget { served, namespace, name: name.map(Into::into), subresource, watched: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_what_kubernetes_paths_name_api_2() {
        let resource = |path: &str| match Target::parse(&Kinds::default(), path) {
            Ok(Target::Resource(t)) => Some((t.kind(), t.namespace, t.name, t.subresource)),
            _ => None,
        };
        let text = |t: &str| Some(t.to_string());
        for (path, expected) in [
            ("/api/v1/pods", Some((Kind::Pod, None, None, None))),
            ("/api/v1/namespaces/a/pods", Some((Kind::Pod, text("a"), None, None))),
            ("/api/v1/namespaces/a/pods/b", Some((Kind::Pod, text("a"), text("b"), None))),
            (
                "/api/v1/namespaces/a/pods/b/log",
                Some((Kind::Pod, text("a"), text("b"), Some(Subresource::Log))),
            ),
            ("/api/v1/namespaces", Some((Kind::Namespace, None, None, None))),
            ("/api/v1/namespaces/a", Some((Kind::Namespace, None, text("a"), None))),
            (
                "/api/v1/namespaces/a/finalize",
                Some((Kind::Namespace, None, text("a"), Some(Subresource::Finalize))),
            ),
            ("/api/v1/nodes/n/status", Some((Kind::Node, None, text("n"), Some(Subresource::Status)))),
            (
                "/apis/apps/v1/namespaces/a/deployments/d/scale",
                Some((Kind::Deployment, text("a"), text("d"), Some(Subresource::Scale))),
            ),
            (
                "/api/v1/namespaces/a/pods/http:b:80/proxy/x//y/",
                Some((Kind::Pod, text("a"), text("http:b:80"), Some(Subresource::Proxy))),
            ),
            ("/api/v1/namespaces/a/pods/b/log/x", None),
            ("/api/v1/pods/b", None),
            ("/api/v1/namespaces/a/nodes/n", None),
            ("/api/v1/namespaces/a/nosuch", None),
            ("/api/v1/namespaces/a/configmaps/b/status", None),
            ("/apis/apps/v1", None),
            ("/apis", None),
        ] {
            assert_eq!(resource(path), expected, "{path}");
        }
    }

    #[test]
    fn a_history_is_of_what_the_rest_of_its_path_names_safe_8() {
        let history = |path: &str| match Target::parse(&Kinds::default(), path) {
            Ok(Target::History(t)) => Some((t.kind(), t.namespace, t.name)),
            _ => None,
        };
        let text = |t: &str| Some(t.to_string());
        for (path, expected) in [
            ("api/v1/pods", Some((Kind::Pod, None, None))),
            ("apis/apps/v1/namespaces/a/deployments/d", Some((Kind::Deployment, text("a"), text("d")))),
            ("api/v1/namespaces/a/pods/b/log", None),
            ("api/v1/watch/pods", None),
            ("apis/podium.dev/v1alpha1/history/api/v1/pods", None),
            ("apis/metrics.k8s.io/v1beta1/nodes", None),
            ("apis", None),
            ("", None),
        ] {
            assert_eq!(history(&format!("/apis/podium.dev/v1alpha1/history/{path}")), expected, "{path}");
        }
    }

    #[test]
    fn the_old_paths_that_watch_name_what_they_follow_api_4() {
        for (path, expected) in [
            ("/api/v1/watch/pods", Some((Kind::Pod, None, None))),
            ("/api/v1/watch/namespaces/a/pods", Some((Kind::Pod, Some("a"), None))),
            ("/api/v1/watch/namespaces/a/pods/b", Some((Kind::Pod, Some("a"), Some("b")))),
            ("/api/v1/watch/nodes/n", Some((Kind::Node, None, Some("n")))),
            ("/apis/apps/v1/watch/deployments", Some((Kind::Deployment, None, None))),
            ("/api/v1/watch/namespaces/a/pods/b/status", None),
            ("/api/v1/watch", None),
        ] {
            let found = match Target::parse(&Kinds::default(), path) {
                Ok(Target::Resource(target)) if target.watched => Some(target),
                _ => None,
            };
            let found = found.as_ref().map(|t| (t.kind(), t.namespace.as_deref(), t.name.as_deref()));
            assert_eq!(found, expected, "{path}");
        }
    }
}
