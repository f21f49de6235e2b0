//! Permissions, by the rules of Kubernetes' authorization and RBAC: queries, the user's own permissions, and the
//! subjects that have a given permission. Pure functions; the screen sends the requests.

pub mod self_rules;
pub mod who_can;
#[cfg(test)]
mod who_can_tests;

use std::fmt;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use serde::{Deserialize, Serialize};

use crate::scope::Scope;

/// Verbs of the API server and of RBAC itself, in conventional order. Discovery adds further verbs.
pub const VERBS: [&str; 17] = [
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "proxy", "bind",
    "escalate", "impersonate", "use", "approve", "sign", "attest", "*",
];

/// The input of an authorizer: the resource attributes of a request (authorization.k8s.io).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// The verb; `*` for all.
    pub verb: String,
    /// The API group, empty for the core group; `*` for all.
    pub group: String,
    /// The plural name; `*` for all.
    pub resource: String,
    /// The subresource, if any.
    pub subresource: Option<String>,
    /// The name of one object; `None` for all.
    pub name: Option<String>,
    /// The namespace; `None` for cluster-wide.
    pub namespace: Option<String>,
}

impl Attributes {
    /// Returns the request that checks the user's own permission.
    pub fn review(&self) -> SelfSubjectAccessReview {
        let attributes = ResourceAttributes {
            verb: Some(self.verb.clone()),
            group: Some(self.group.clone()),
            resource: Some(self.resource.clone()),
            subresource: self.subresource.clone(),
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            ..ResourceAttributes::default()
        };
        SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        }
    }

    /// Reports whether the target is a Namespace. Authorizers treat a Namespace as an object inside itself, so that a
    /// Role in it can permit reading it.
    pub fn is_a_namespace(&self) -> bool {
        self.group.is_empty() && self.resource == "namespaces"
    }

    /// Returns the resource in the notation of rules: `pods/log`.
    fn rule_resource(&self) -> String {
        match &self.subresource {
            Some(subresource) => format!("{}/{subresource}", self.resource),
            None => self.resource.clone(),
        }
    }
}

impl fmt::Display for Attributes {
    /// Formats as `get deployments.apps/scale web in shop`, which `:can` accepts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, resource_text(&self.group, &self.rule_resource()))?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        match &self.namespace {
            Some(namespace) if self.is_a_namespace() && self.name.as_ref() == Some(namespace) => Ok(()),
            Some(namespace) => write!(f, " in {namespace}"),
            None => write!(f, " cluster-wide"),
        }
    }
}

/// Returns a rule's resource with its group: `pods/log`, `deployments.apps/scale`, `*.*`.
fn resource_text(group: &str, resource: &str) -> String {
    match (group, resource.split_once('/')) {
        ("", _) => resource.to_owned(),
        (group, Some((resource, subresource))) => format!("{resource}.{group}/{subresource}"),
        (group, None) => format!("{resource}.{group}"),
    }
}

/// A query of the access screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessQuery {
    /// The user's permissions in the namespace in scope.
    OwnRules,
    /// One permission: whether the user has it, and all subjects that have it. The strings are notes for the user.
    SubjectsWith(Attributes, Vec<String>),
}

/// Returns the namespace to query for a scope, and a note if it differs from the scope.
pub fn namespace_of(scope: &Scope) -> (String, Option<String>) {
    match scope {
        Scope::One(name) => (name.clone(), None),
        Scope::All => {
            let note = "all namespaces are shown: the check uses default (:ns NAME selects another)";
            ("default".to_owned(), Some(note.to_owned()))
        }
    }
}
