//! Who may do what, as Kubernetes' authorization and RBAC say it: what is asked, what I may, and who may. Data in, data
//! out; the requests are the screen's.

pub(crate) mod mine;
pub(crate) mod who;
#[cfg(test)]
mod who_tests;

use std::fmt;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use serde::{Deserialize, Serialize};

use crate::scope::Scope;

/// Verbs of the API server and of RBAC itself, in the order people say them. Others come from discovery.
pub(crate) const VERBS: [&str; 17] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "proxy",
    "bind",
    "escalate",
    "impersonate",
    "use",
    "approve",
    "sign",
    "attest",
    "*",
];

/// What an authorizer decides on: the resource attributes of a request (authorization.k8s.io).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// The verb; `*` is every one.
    pub(crate) verb: String,
    /// API group, empty for the core group; `*` is every one.
    pub(crate) group: String,
    /// Plural name; `*` is every one.
    pub(crate) resource: String,
    /// Subresource, where one is meant.
    pub(crate) subresource: Option<String>,
    /// One object; none is all of them.
    pub(crate) name: Option<String>,
    /// The namespace; none is cluster-wide.
    pub(crate) namespace: Option<String>,
}

impl Attributes {
    /// What asks the server whether I may.
    pub(crate) fn review(&self) -> SelfSubjectAccessReview {
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

    /// Whether it is about a Namespace, which to authorizers is inside itself: whoever has a role there can see it.
    pub(crate) fn is_a_namespace(&self) -> bool {
        self.group.is_empty() && self.resource == "namespaces"
    }

    /// The resource as rules name it: `pods/log`.
    fn rule_resource(&self) -> String {
        match &self.subresource {
            Some(subresource) => format!("{}/{subresource}", self.resource),
            None => self.resource.clone(),
        }
    }
}

impl fmt::Display for Attributes {
    /// `get deployments.apps/scale web in shop`, as `:can` takes it.
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

/// A resource of a rule with its group: `pods/log`, `deployments.apps/scale`, `*.*`.
fn resource_text(group: &str, resource: &str) -> String {
    match (group, resource.split_once('/')) {
        ("", _) => resource.to_owned(),
        (group, Some((resource, subresource))) => format!("{resource}.{group}/{subresource}"),
        (group, None) => format!("{resource}.{group}"),
    }
}

/// What the screen is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// What I may, in the namespace in scope.
    Mine,
    /// Whether I may, and who may; with what has to be said of the question.
    Who(Attributes, Vec<String>),
}

/// The namespace to ask about where these are shown, and a note where that is not what is shown.
pub(crate) fn namespace_of(scope: &Scope) -> (String, Option<String>) {
    match scope {
        Scope::One(name) => (name.clone(), None),
        Scope::All => {
            let note = "all namespaces are shown: this is asked for default (:ns NAME for another)";
            ("default".to_owned(), Some(note.to_owned()))
        }
    }
}
