//! The default roles and bindings of every cluster, and their reconciliation: missing permissions are
//! restored at each start, unless the object's annotation disables that; permissions that users add stay.

mod controllers;
mod namespaces;
mod roles;

use std::sync::LazyLock;

use k8s_openapi::api::rbac::v1::{
    AggregationRule, ClusterRole, ClusterRoleBinding, PolicyRule, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::GROUP;
use super::rules::covers;
use crate::{Api, ApiError};
use base::sort::CollectMap;
use object::{Key, TypedKind};

/// The prefix of service accounts' user names.
pub(in crate::authorization) const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// The annotation that disables reconciliation with `false`.
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
const BOOTSTRAPPING: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");

// Lists of the table are words separated by blanks; the core group is written `core`.
const READ: &str = "get list watch";
const WRITE: &str = "create update patch delete deletecollection";
const READ_WRITE: &str = "get list watch create update patch delete deletecollection";
const READ_UPDATE: &str = "get list watch update patch";
const CORE: &str = "core";

/// One rule of the table.
#[derive(Clone, Copy)]
enum Rule {
    /// Verbs, groups, resources.
    On(&'static str, &'static str, &'static str),
    /// Verbs, groups, resources, names.
    Named(&'static str, &'static str, &'static str, &'static str),
    /// Verbs, paths.
    Paths(&'static str, &'static str),
}

/// Permission to write events.
const EVENTS: Rule = Rule::On("create update patch", "core events.k8s.io", "events");

/// Permission to review tokens and users' access.
const REVIEWS_TOKENS: Rule = Rule::On("create", "authentication.k8s.io", "tokenreviews");
const REVIEWS_ACCESS: Rule = Rule::On("create", "authorization.k8s.io", "subjectaccessreviews");

/// One cluster role of the table.
#[derive(Clone, Copy)]
struct Entry {
    name: &'static str,
    /// The role among `admin`, `edit` and `view` that aggregates its rules.
    aggregated_to: Option<&'static str>,
    /// True if the role aggregates the rules of roles that carry its label.
    aggregates: bool,
    rules: &'static [Rule],
}

const fn entry(name: &'static str, rules: &'static [Rule]) -> Entry {
    Entry { name, aggregated_to: None, aggregates: false, rules }
}

fn split_list(text: &str) -> Vec<String> {
    text.split(' ').map(|word| if word == CORE { "" } else { word }.to_string()).collect()
}

impl Rule {
    fn policy_rule(&self) -> PolicyRule {
        let verbs = |text: &str| text.split(' ').map(ToString::to_string).collect();
        match *self {
            Self::On(given, groups, resources) => PolicyRule {
                verbs: verbs(given),
                api_groups: Some(split_list(groups)),
                resources: Some(split_list(resources)),
                ..PolicyRule::default()
            },
            Self::Named(given, groups, resources, names) => PolicyRule {
                resource_names: Some(split_list(names)),
                ..Self::On(given, groups, resources).policy_rule()
            },
            Self::Paths(given, paths) => PolicyRule {
                verbs: verbs(given),
                non_resource_urls: Some(split_list(paths)),
                ..PolicyRule::default()
            },
        }
    }
}

fn rules(of: &[Rule]) -> Vec<PolicyRule> {
    of.iter().map(Rule::policy_rule).collect()
}

impl Entry {
    fn cluster_role(&self) -> ClusterRole {
        let mut metadata = meta("", self.name);
        let label = |to: &str| format!("rbac.authorization.k8s.io/aggregate-to-{to}");
        if let (Some(to), Some(labels)) = (self.aggregated_to, &mut metadata.labels) {
            labels.insert(label(to), "true".into());
        }
        let selector = || LabelSelector {
            match_labels: Some([(label(self.name), "true".to_string())].collect_map()),
            ..LabelSelector::default()
        };
        ClusterRole {
            metadata,
            aggregation_rule: self
                .aggregates
                .then(|| AggregationRule { cluster_role_selectors: Some(vec![selector()]) }),
            rules: (!self.aggregates).then(|| rules(self.rules)),
        }
    }
}

fn meta(namespace: &str, name: &str) -> ObjectMeta {
    let one = |(key, value): (&str, &str)| Some([(key.to_string(), value.to_string())].collect_map());
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some(namespace.into()).filter(|n: &String| !n.is_empty()),
        labels: one(BOOTSTRAPPING),
        annotations: one((AUTO_UPDATE, "true")),
        ..ObjectMeta::default()
    }
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef { api_group: Some(GROUP.into()), kind: kind.into(), name: name.into() }
}

/// Parses `user:NAME`, `group:NAME` or `account:NAMESPACE/NAME`.
fn subject(text: &str) -> Subject {
    let (kind, name) = text.split_once(':').unwrap_or(("user", text));
    match (kind, name.split_once('/')) {
        ("account", Some((namespace, name))) => Subject {
            kind: "ServiceAccount".into(),
            namespace: Some(namespace.into()),
            name: name.into(),
            api_group: None,
        },
        (kind, _) => Subject {
            kind: if kind == "group" { "Group" } else { "User" }.into(),
            name: name.into(),
            api_group: Some(GROUP.into()),
            namespace: None,
        },
    }
}

fn cluster_binding(role: &str, subjects: &[&str]) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: meta("", role),
        role_ref: role_ref("ClusterRole", role),
        subjects: Some(subjects.iter().map(|text| subject(text)).collect()),
    }
}

/// Returns the rules of `system:node`, which the node authorizer applies even if the role was changed or
/// deleted.
pub(super) fn node_rules() -> &'static [PolicyRule] {
    static RULES: LazyLock<Vec<PolicyRule>> =
        LazyLock::new(|| roles::NODE.iter().map(Rule::policy_rule).collect());
    &RULES
}

pub(super) fn cluster_roles() -> Vec<ClusterRole> {
    roles::ROLES.iter().chain(controllers::ROLES).map(Entry::cluster_role).collect()
}

pub(super) fn cluster_bindings() -> Vec<ClusterRoleBinding> {
    let of_controllers = controllers::ROLES.iter().map(|entry| {
        let account = entry.name.trim_start_matches("system:controller:");
        cluster_binding(entry.name, &[&format!("account:kube-system/{account}")])
    });
    let others = roles::BINDINGS.iter().map(|(role, subjects)| cluster_binding(role, subjects));
    others.chain(of_controllers).collect()
}

pub(super) fn reconcile(api: &Api) -> Result<(), ApiError> {
    for role in cluster_roles() {
        ensure(api, role, |current, desired| {
            complete_rules(&mut current.rules, desired.rules.as_deref());
            let selectors = desired.aggregation_rule.as_ref().and_then(|a| a.cluster_role_selectors.as_ref());
            let Some(selectors) = selectors else { return };
            let its = current
                .aggregation_rule
                .get_or_insert_default()
                .cluster_role_selectors
                .get_or_insert_default();
            extend(its, selectors);
        })?;
    }
    for binding in cluster_bindings() {
        rebind(api, binding, |b| &b.role_ref, |b| &mut b.subjects)?;
    }
    for role in namespaces::roles() {
        ensure(api, role, |current, desired| {
            complete_rules(&mut current.rules, desired.rules.as_deref());
        })?;
    }
    for binding in namespaces::bindings() {
        rebind(api, binding, |b: &RoleBinding| &b.role_ref, |b| &mut b.subjects)?;
    }
    Ok(())
}

/// Adds missing permissions to a role.
fn complete_rules(its: &mut Option<Vec<PolicyRule>>, desired: Option<&[PolicyRule]>) {
    let missing = covers(its.as_deref().unwrap_or_default(), desired.unwrap_or_default());
    if !missing.is_empty() {
        its.get_or_insert_default().extend(missing);
    }
}

fn extend<T: PartialEq + Clone>(its: &mut Vec<T>, desired: &[T]) {
    for one in desired {
        if !its.contains(one) {
            its.push(one.clone());
        }
    }
}

/// Creates an object, or completes the existing one.
fn ensure<T: TypedKind>(api: &Api, desired: T, complete: impl Fn(&mut T, &T)) -> Result<(), ApiError> {
    let key = Key::of(desired.metadata());
    match api.get_as::<T>(&key) {
        Err(_) => api.create_as(desired).map(drop),
        Ok(current) if keeps_its_form(current.metadata()) => Ok(()),
        Ok(_) => api
            .modify::<T>(&key, |current| {
                complete(current, &desired);
                let (its, given) = (current.metadata_mut(), desired.metadata());
                for (its, given) in
                    [(&mut its.labels, &given.labels), (&mut its.annotations, &given.annotations)]
                {
                    for (key, value) in given.iter().flatten() {
                        its.get_or_insert_default().entry(key.clone()).or_insert_with(|| value.clone());
                    }
                }
                Ok(())
            })
            .map(drop),
    }
}

fn keeps_its_form(meta: &ObjectMeta) -> bool {
    meta.annotations.as_ref().and_then(|a| a.get(AUTO_UPDATE)).is_some_and(|value| value == "false")
}

/// As [`ensure`]; a binding to another role is recreated, because a binding's role is immutable.
fn rebind<T: TypedKind>(
    api: &Api,
    desired: T,
    role: impl Fn(&T) -> &RoleRef,
    subjects: impl Fn(&mut T) -> &mut Option<Vec<Subject>>,
) -> Result<(), ApiError> {
    let key = Key::of(desired.metadata());
    if let Ok(current) = api.get_as::<T>(&key)
        && !keeps_its_form(current.metadata())
        && role(&current) != role(&desired)
    {
        api.delete(T::kind(), &key, &crate::DeleteOptions::uid(current.uid()))?;
    }
    ensure(api, desired, |current, desired| {
        let mut desired = desired.clone();
        let given = subjects(&mut desired).take().unwrap_or_default();
        if !given.is_empty() {
            extend(subjects(current).get_or_insert_default(), &given);
        }
    })
}
