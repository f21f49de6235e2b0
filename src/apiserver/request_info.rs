//! The attributes of a request for the authorizer, from the path, the method and the query, independent of
//! the existence of the resource. Kubernetes' `RequestInfo`.
//!
//! Invariant: the path is split as `request::Target` splits it, so that the authorized request is the one
//! that is executed.

use std::borrow::Cow;
use std::sync::Arc;

use http::Method;

use super::query::Query;
use super::request::{history_path, split};
use crate::audit::{self, SESSIONS};
use api::ApiError;
use api::authorization::{Attributes, RequestTarget, ResourceAttributes};
use api::identity::User;

/// The attributes of a request, without the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestInfo {
    verb: Cow<'static, str>,
    /// The path of the request, percent-decoded.
    path: String,
    resource: Option<RequestNames>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RequestNames {
    group: String,
    version: String,
    resource: String,
    subresource: String,
    name: String,
    namespace: String,
    on_node: String,
}

/// The attributes of a request. Fields that it lacks are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestAttributes {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource's plural; empty for requests without a resource (discovery, health).
    pub resource: String,
    /// The subresource: `status`, `scale` …
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The object's name; a create request has it only in its body.
    pub name: String,
    /// The client's user agent.
    pub user_agent: String,
}

impl RequestInfo {
    pub(super) fn of(method: &Method, path: &str, query: &Query) -> Result<Self, ApiError> {
        let path = percent_encoding::percent_decode_str(path)
            .decode_utf8()
            .map_err(|_| ApiError::BadRequest("the path is not valid UTF-8".into()))?
            .into_owned();
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        // The permission to read objects covers their past; the query of a history does not narrow the
        // permission.
        let past = history_path(&parts);
        let nothing = Query::default();
        let (parts, query) = past.map_or((parts.as_slice(), query), |inner| (inner, &nothing));
        let Some((group, version, rest)) = split(parts) else {
            let verb = method.as_str().to_ascii_lowercase().into();
            return Ok(Self { verb, path, resource: None });
        };
        let (watched, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            rest => (false, rest),
        };
        let (namespace, rest) = match rest {
            // `namespaces/x` names a Namespace object, which counts as an object in that namespace.
            ["namespaces", namespace, "status" | "finalize"] | ["namespaces", namespace] => {
                (*namespace, rest)
            }
            ["namespaces", namespace, inner @ ..] => (*namespace, inner),
            _ => ("", rest),
        };
        let part = |i: usize| rest.get(i).copied().unwrap_or_default();
        let mut named = RequestNames {
            group: group.into(),
            version: version.into(),
            resource: part(0).into(),
            name: part(1).into(),
            subresource: part(2).into(),
            namespace: namespace.into(),
            on_node: String::new(),
        };
        // For one object, or its subresource, the method alone decides the verb.
        let is_watch = watched || named.name.is_empty() && query.flag("watch");
        let verb = verb(method, is_watch, named.name.is_empty());
        if matches!(verb, "list" | "watch" | "deletecollection") {
            if named.name.is_empty() {
                named.name = demanded(query, "metadata.name");
            }
            named.on_node = demanded(query, "spec.nodeName");
        }
        Ok(Self { verb: verb.into(), path, resource: Some(named) })
    }

    /// Returns true if the response may take unlimited time, as in Kubernetes (apart from
    /// `--min-request-timeout`).
    pub(super) fn is_long_running(&self) -> bool {
        self.verb == "watch" || self.is_session()
    }

    /// Returns true for a session or a log, which last until the client ends them.
    pub(super) fn is_session(&self) -> bool {
        let part = self.resource.as_ref().map_or("", |named| named.subresource.as_str());
        SESSIONS.contains(&part)
    }

    /// Returns the attributes for readers other than authorizers.
    pub(super) fn attributes(&self) -> RequestAttributes {
        let named = self.resource.clone().unwrap_or_default();
        RequestAttributes {
            verb: self.verb.to_string(),
            group: named.group,
            resource: named.resource,
            subresource: named.subresource,
            namespace: named.namespace,
            name: named.name,
            user_agent: String::new(),
        }
    }

    /// Returns the attributes for the audit log.
    pub(super) fn audited(&self, user: Option<Arc<User>>) -> audit::AuditAttributes {
        let on = match &self.resource {
            None => audit::RequestTarget::Path(self.path.clone()),
            Some(named) => audit::RequestTarget::Resource(audit::Resource {
                group: named.group.clone(),
                version: named.version.clone(),
                plural: named.resource.clone(),
                subresource: named.subresource.clone(),
                namespace: named.namespace.clone(),
                name: named.name.clone(),
            }),
        };
        audit::AuditAttributes { verb: self.verb.to_string(), user, on }
    }

    /// Returns the attributes for the authorizer, with this user.
    pub(super) fn by<'a>(&'a self, user: &'a User) -> Attributes<'a> {
        self.as_verb(user, &self.verb)
    }

    fn as_verb<'a>(&'a self, user: &'a User, verb: &'a str) -> Attributes<'a> {
        let on = match &self.resource {
            None => RequestTarget::Path(&self.path),
            Some(named) => RequestTarget::Resource(ResourceAttributes {
                group: &named.group,
                resource: &named.resource,
                subresource: &named.subresource,
                name: &named.name,
                namespace: &named.namespace,
                on_node: &named.on_node,
            }),
        };
        Attributes { user, verb, on }
    }

    /// Returns the additional `create` permission that a GET needs if it opens a session in a pod, as in
    /// Kubernetes since 1.35.
    pub(super) fn also_creates<'a>(&'a self, user: &'a User) -> Option<Attributes<'a>> {
        let named = self.resource.as_ref()?;
        let session = named.group.is_empty()
            && named.resource == "pods"
            && matches!(named.subresource.as_str(), "exec" | "attach" | "portforward");
        (session && self.verb == "get").then(|| self.as_verb(user, "create"))
    }
}

fn verb(method: &Method, watches: bool, is_collection: bool) -> &'static str {
    match *method {
        Method::GET | Method::HEAD if watches => "watch",
        Method::GET | Method::HEAD if is_collection => "list",
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if is_collection => "deletecollection",
        Method::DELETE => "delete",
        // No rule allows an empty verb.
        _ => "",
    }
}

/// Returns the value that a field selector demands of a field; empty if it demands none.
fn demanded(query: &Query, field: &str) -> String {
    let selector = query.get("fieldSelector").unwrap_or_default();
    if selector.contains('\\') {
        return String::new();
    }
    let of_field = selector.split(',').filter_map(|term| term.trim().strip_prefix(field));
    let value = of_field
        .filter_map(|rest| rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')))
        .find(|value| !value.is_empty() && !value.starts_with('='));
    value.unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_kubernetes_verbs_and_names_api_15() {
        let user = User::named("u", Vec::new());
        let summary = |method: Method, target: &str| {
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let info = RequestInfo::of(&method, path, &Query::parse(query)).unwrap();
            let text = match info.by(&user).on {
                RequestTarget::Path(path) => format!("{} {path}", info.verb),
                RequestTarget::Resource(r) => format!(
                    "{} {}:{}/{} name={} ns={} node={}",
                    info.verb, r.group, r.resource, r.subresource, r.name, r.namespace, r.on_node
                ),
            };
            (text, info.also_creates(&user).is_some())
        };
        for (method, target, expected) in [
            (Method::GET, "/api/v1/pods", "list :pods/ name= ns= node="),
            (Method::GET, "/api/v1/pods?watch=true", "watch :pods/ name= ns= node="),
            (Method::GET, "/api/v1/watch/namespaces/a/pods/p", "watch :pods/ name=p ns=a node="),
            (Method::GET, "/api/v1/namespaces/a/pods/p?watch=1", "get :pods/ name=p ns=a node="),
            (Method::GET, "/api/v1/namespaces/a/pods/p/log?watch=1", "get :pods/log name=p ns=a node="),
            (Method::GET, "/apis/x.io/v1/namespaces/a/status/x", "get x.io:status/ name=x ns=a node="),
            (
                Method::GET,
                "/api/v1/namespaces/a/secrets?fieldSelector=metadata.name%3Ds",
                "list :secrets/ name=s ns=a node=",
            ),
            (
                Method::GET,
                "/api/v1/pods?fieldSelector=spec.nodeName%3D%3Dn,metadata.name!%3Dx",
                "list :pods/ name= ns= node=n",
            ),
            (Method::GET, "/api/v1/namespaces/a", "get :namespaces/ name=a ns=a node="),
            (Method::PUT, "/api/v1/namespaces/a/finalize", "update :namespaces/finalize name=a ns=a node="),
            (Method::GET, "/api/v1/namespaces", "list :namespaces/ name= ns= node="),
            (
                Method::POST,
                "/apis/apps/v1/namespaces/a/deployments",
                "create apps:deployments/ name= ns=a node=",
            ),
            (Method::PATCH, "/apis/x.io/v9/what/n/scale", "patch x.io:what/scale name=n ns= node="),
            (Method::DELETE, "/api/v1/namespaces/a/pods", "deletecollection :pods/ name= ns=a node="),
            (Method::DELETE, "/api/v1/nodes/n", "delete :nodes/ name=n ns= node="),
            (Method::GET, "/api/v1/nodes/n/proxy/metrics/x", "get :nodes/proxy name=n ns= node="),
            (Method::GET, "/api/v1/namespaces/a/pods/p%2flog", "get :pods/log name=p ns=a node="),
            (Method::GET, "/api/v1", "get /api/v1"),
            (Method::GET, "/apis/apps/v1", "get /apis/apps/v1"),
            (Method::POST, "/healthz", "post /healthz"),
            (Method::TRACE, "/api/v1/pods", " :pods/ name= ns= node="),
        ] {
            assert_eq!(summary(method, target), (expected.to_string(), false), "{target}");
        }
        assert!(summary(Method::GET, "/api/v1/namespaces/a/pods/p/exec?command=sh").1);
        assert!(summary(Method::GET, "/api/v1/namespaces/a/pods/p/exec?command=sh&watch=1").1);
        assert!(!summary(Method::POST, "/api/v1/namespaces/a/pods/p/exec?command=sh").1);
    }
}
