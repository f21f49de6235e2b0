//! Finds the subjects that bindings and roles of RBAC permit to do something. Decides as the RBAC authorizer of
//! kube-apiserver does (`plugin/pkg/auth/authorizer/rbac`), but for all subjects at once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use k8s_openapi::api::rbac::v1::{
    self, ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef,
};

use super::Attributes;

/// The maximum number of subjects, counted once per binding.
const MAX_SUBJECTS: usize = 20_000;

/// The objects of one kind that could be read.
#[derive(Clone, Debug)]
pub struct PartialList<K> {
    /// The objects, possibly incomplete.
    pub objects: Vec<K>,
    /// The reason why objects are, or may be, missing; `None` if the list is complete.
    pub unread: Option<String>,
}

impl<K> Default for PartialList<K> {
    fn default() -> Self {
        Self { objects: Vec::new(), unread: None }
    }
}

/// The RBAC objects that could be read. Roles and RoleBindings come from the queried namespace; a cluster-wide query
/// has none.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The ClusterRoleBindings.
    pub cluster_role_bindings: PartialList<ClusterRoleBinding>,
    /// The ClusterRoles.
    pub cluster_roles: PartialList<ClusterRole>,
    /// The RoleBindings.
    pub role_bindings: PartialList<RoleBinding>,
    /// The Roles.
    pub roles: PartialList<Role>,
}

impl Policy {
    /// Returns the kinds that are missing, each with the reason.
    pub fn unread(&self) -> Vec<(&'static str, &str)> {
        [
            ("cluster role bindings", &self.cluster_role_bindings.unread),
            ("cluster roles", &self.cluster_roles.unread),
            ("role bindings", &self.role_bindings.unread),
            ("roles", &self.roles.unread),
        ]
        .into_iter()
        .filter_map(|(what, unread)| Some((what, unread.as_deref()?)))
        .collect()
    }
}

/// A subject of a binding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// All users in a group.
    Group(String),
    /// A service account, by namespace and name.
    ServiceAccount(String, String),
    /// A user, by name.
    User(String),
}

impl Subject {
    /// Parses a subject of a binding in this namespace; `None` if it matches no user.
    fn of(subject: &v1::Subject, namespace: Option<&str>) -> Option<Self> {
        let name = subject.name.clone();
        match subject.kind.as_str() {
            "User" => Some(Self::User(name)),
            "Group" => Some(Self::Group(name)),
            "ServiceAccount" => {
                let own = subject.namespace.as_deref().filter(|own| !own.is_empty());
                Some(Self::ServiceAccount(own.or(namespace)?.to_owned(), name))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(name) => write!(f, "Group {name}"),
            Self::ServiceAccount(namespace, name) => write!(f, "ServiceAccount {namespace}/{name}"),
            Self::User(name) => write!(f, "User {name}"),
        }
    }
}

/// The grant by which a subject has a permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// `RoleBinding shop/readers`.
    pub(crate) binding: String,
    /// `ClusterRole view`.
    pub(crate) role: String,
    /// The object names to which the grant is limited, if the query is for all objects; empty for no limit.
    pub(crate) only: BTreeSet<String>,
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {}", self.binding, self.role)?;
        if !self.only.is_empty() {
            let names: Vec<&str> = self.only.iter().map(String::as_str).collect();
            write!(f, ", only {}", names.join(", "))?;
        }
        Ok(())
    }
}

/// The subjects with a permission, according to the objects read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WhoCanReport {
    /// The subjects, each with its grants.
    pub subjects: BTreeMap<Subject, Vec<Grant>>,
    /// The number of bindings to roles that may be among the unread ones, so that their effect is unknown.
    pub unresolved: usize,
    /// The list of subjects was cut at the limit.
    pub is_truncated: bool,
    count: usize,
}

/// The part of the query that a role permits.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RuleMatch {
    Nothing,
    /// Only the objects with these names.
    Only(BTreeSet<String>),
    Whole,
}

impl RuleMatch {
    /// Combines all rules of a role.
    fn of(rules: Option<&Vec<PolicyRule>>, attributes: &Attributes) -> Self {
        let mut only = BTreeSet::new();
        for rule in rules.into_iter().flatten() {
            match Self::of_rule(rule, attributes) {
                Self::Nothing => {}
                Self::Only(names) => only.extend(names),
                Self::Whole => return Self::Whole,
            }
        }
        if only.is_empty() { Self::Nothing } else { Self::Only(only) }
    }

    fn of_rule(rule: &PolicyRule, attributes: &Attributes) -> Self {
        let has = |list: &[String], needle: &str| list.iter().any(|one| one == "*" || one == needle);
        let groups = rule.api_groups.as_deref().unwrap_or_default();
        let resources = rule.resources.as_deref().unwrap_or_default();
        let any_resource = attributes.subresource.as_ref().map(|subresource| format!("*/{subresource}"));
        let resource = has(resources, &attributes.rule_resource())
            || any_resource.is_some_and(|any| resources.contains(&any));
        if !has(&rule.verbs, &attributes.verb) || !has(groups, &attributes.group) || !resource {
            return Self::Nothing;
        }
        // There is no wildcard here: `*` would be the name of an object, which cannot exist.
        let names = rule.resource_names.as_deref().unwrap_or_default();
        match &attributes.name {
            _ if names.is_empty() => Self::Whole,
            Some(name) if names.contains(name) => Self::Whole,
            Some(_) => Self::Nothing,
            None => Self::Only(names.iter().cloned().collect()),
        }
    }
}

/// The roles of one kind: by name, the part of the query that each permits. `whole` is false if there may be more
/// roles.
struct Roles<'a> {
    kind: &'static str,
    extents: HashMap<&'a str, RuleMatch>,
    whole: bool,
}

/// Returns the subjects with a permission, by all bindings and roles that were read. A missing role permits nothing;
/// the rules of aggregated ClusterRoles are filled in by the cluster.
pub fn subjects_allowed(attributes: &Attributes, policy: &Policy) -> WhoCanReport {
    let cluster_roles = Roles {
        kind: "ClusterRole",
        extents: policy
            .cluster_roles
            .objects
            .iter()
            .filter_map(|role| {
                Some((role.metadata.name.as_deref()?, RuleMatch::of(role.rules.as_ref(), attributes)))
            })
            .collect(),
        whole: policy.cluster_roles.unread.is_none(),
    };
    let mut found = WhoCanReport::default();
    for binding in &policy.cluster_role_bindings.objects {
        // A ClusterRoleBinding cannot refer to a Role.
        if binding.role_ref.kind == "ClusterRole" {
            let name = binding.metadata.name.as_deref().unwrap_or_default();
            let subjects = binding.subjects.iter().flatten();
            let title = format!("ClusterRoleBinding {name}");
            found.add(&cluster_roles, &binding.role_ref, &title, None, subjects);
        }
    }
    let Some(namespace) = attributes.namespace.as_deref() else { return found };
    let inside = |own: Option<&str>| own == Some(namespace);
    let roles = Roles {
        kind: "Role",
        extents: policy
            .roles
            .objects
            .iter()
            .filter(|role| inside(role.metadata.namespace.as_deref()))
            .filter_map(|role| {
                Some((role.metadata.name.as_deref()?, RuleMatch::of(role.rules.as_ref(), attributes)))
            })
            .collect(),
        whole: policy.roles.unread.is_none(),
    };
    let bindings = policy.role_bindings.objects.iter();
    for binding in bindings.filter(|binding| inside(binding.metadata.namespace.as_deref())) {
        let known = match binding.role_ref.kind.as_str() {
            "ClusterRole" => &cluster_roles,
            "Role" => &roles,
            _ => continue,
        };
        let name = binding.metadata.name.as_deref().unwrap_or_default();
        let title = format!("RoleBinding {namespace}/{name}");
        found.add(known, &binding.role_ref, &title, Some(namespace), binding.subjects.iter().flatten());
    }
    found
}

impl WhoCanReport {
    fn add<'a>(
        &mut self,
        roles: &Roles<'_>,
        role: &RoleRef,
        binding: &str,
        namespace: Option<&str>,
        subjects: impl Iterator<Item = &'a v1::Subject>,
    ) {
        let only = match roles.extents.get(role.name.as_str()) {
            Some(RuleMatch::Nothing) => return,
            Some(RuleMatch::Whole) => BTreeSet::new(),
            Some(RuleMatch::Only(names)) => names.clone(),
            None => {
                self.unresolved += usize::from(!roles.whole);
                return;
            }
        };
        let place = match (roles.kind, namespace) {
            ("Role", Some(namespace)) => format!("{namespace}/"),
            _ => String::new(),
        };
        let grant =
            Grant { binding: binding.to_owned(), role: format!("{} {place}{}", roles.kind, role.name), only };
        // A subject that is listed twice has one grant.
        let subjects: BTreeSet<Subject> = subjects.filter_map(|one| Subject::of(one, namespace)).collect();
        for subject in subjects {
            if self.count == MAX_SUBJECTS {
                self.is_truncated = true;
                return;
            }
            self.count += 1;
            self.subjects.entry(subject).or_default().push(grant.clone());
        }
    }
}
