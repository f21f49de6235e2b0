//! A compiled flow schema: the assignment of requests to flows.

use std::hash::{DefaultHasher, Hash, Hasher};

use k8s_openapi::api::flowcontrol::v1::{
    FlowSchema, NonResourcePolicyRule, PolicyRulesWithSubjects, ResourcePolicyRule, Subject,
};

use api::authorization::{Attributes, RequestTarget, ResourceAttributes};
use api::identity::User;

const ANY: &str = "*";

/// The attribute that distinguishes a schema's flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distinguisher {
    User,
    Namespace,
    /// All requests are one flow.
    Nothing,
}

/// A flow schema.
#[derive(Clone, Debug)]
pub(super) struct Schema {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) level: String,
    precedence: i32,
    by: Distinguisher,
    rules: Vec<PolicyRulesWithSubjects>,
}

impl Schema {
    pub(super) fn new(schema: &FlowSchema) -> Self {
        let spec = &schema.spec;
        Self {
            name: schema.metadata.name.clone().unwrap_or_default(),
            uid: schema.metadata.uid.clone().unwrap_or_default(),
            level: spec.priority_level_configuration.name.clone(),
            precedence: spec.matching_precedence.unwrap_or_default(),
            by: match spec.distinguisher_method.as_ref().map(|method| method.type_.as_str()) {
                Some("ByUser") => Distinguisher::User,
                Some("ByNamespace") => Distinguisher::Namespace,
                _ => Distinguisher::Nothing,
            },
            rules: spec.rules.clone().unwrap_or_default(),
        }
    }

    /// Returns the sort key among matching schemas: the least wins.
    pub(super) fn order(&self) -> (i32, &str) {
        (self.precedence, &self.name)
    }

    /// Returns true if a request matches.
    pub(super) fn matches(&self, attributes: &Attributes<'_>) -> bool {
        self.rules.iter().any(|rule| {
            let of = |subject: &Subject| is_of(subject, attributes.user);
            rule.subjects.iter().any(of)
                && match attributes.on {
                    RequestTarget::Path(path) => {
                        let mut rules = rule.non_resource_rules.iter().flatten();
                        rules.any(|rule| matches_path(rule, attributes.verb, path))
                    }
                    RequestTarget::Resource(resource) => {
                        let mut rules = rule.resource_rules.iter().flatten();
                        rules.any(|rule| matches_resource(rule, attributes.verb, resource))
                    }
                }
        })
    }

    /// Returns the flow of a matching request.
    pub(super) fn flow(&self, attributes: &Attributes<'_>) -> u64 {
        let distinguisher = match (self.by, attributes.on) {
            (Distinguisher::User, _) => attributes.user.name.as_str(),
            (Distinguisher::Namespace, RequestTarget::Resource(resource)) => resource.namespace,
            _ => "",
        };
        let mut hasher = DefaultHasher::new();
        (&self.name, distinguisher).hash(&mut hasher);
        hasher.finish()
    }
}

fn is_of(subject: &Subject, user: &User) -> bool {
    let any_or = |pattern: &str, name: &str| pattern == ANY || pattern == name;
    if let Some(group) = &subject.group {
        return user.groups.iter().any(|of| any_or(&group.name, of));
    }
    if let Some(one) = &subject.user {
        return any_or(&one.name, &user.name);
    }
    let Some(account) = &subject.service_account else { return false };
    let of = user.name.strip_prefix("system:serviceaccount:").and_then(|name| name.split_once(':'));
    of.is_some_and(|(namespace, name)| namespace == account.namespace && any_or(&account.name, name))
}

fn contains(list: &[String], item: &str) -> bool {
    list.iter().any(|one| one == ANY || one == item)
}

fn matches_path(rule: &NonResourcePolicyRule, verb: &str, path: &str) -> bool {
    let is_meant = |url: &String| match url.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => url == path,
    };
    contains(&rule.verbs, verb) && rule.non_resource_urls.iter().any(is_meant)
}

fn matches_resource(rule: &ResourcePolicyRule, verb: &str, resource: ResourceAttributes<'_>) -> bool {
    let is_named = match resource.subresource {
        "" => contains(&rule.resources, resource.resource),
        below => rule.resources.iter().any(|one| {
            one == ANY
                || one.split_once('/').is_some_and(|(of, part)| of == resource.resource && part == below)
        }),
    };
    let is_there = match resource.namespace {
        "" => rule.cluster_scope == Some(true),
        namespace => contains(rule.namespaces.as_deref().unwrap_or_default(), namespace),
    };
    is_named && is_there && contains(&rule.verbs, verb) && contains(&rule.api_groups, resource.group)
}
