//! Prevention of privilege escalation: authors of roles and bindings need the permissions that they grant.

use k8s_openapi::api::rbac::v1::{AggregationRule, ClusterRole, PolicyRule, Role};

use super::attributes::{Attributes, RequestTarget, ResourceAttributes};
use super::index::bound;
use super::rules::{covers, format_rule, quoted};
use super::{GROUP, KINDS, rbac};
use crate::identity::User;
use crate::{Api, ApiError};
use base::sort::SliceOrder;
use object::Object;

/// Refuses a role with rules, or a binding to a role, whose permissions its author lacks; `old` is the
/// version before the change. Actors of this process (no user) are exempt.
pub(crate) fn check(
    api: &Api,
    user: Option<&User>,
    old: Option<&Object>,
    new: &Object,
) -> Result<(), ApiError> {
    let Some(user) = user.filter(|user| KINDS.contains(&new.kind()) && !user.is_master()) else {
        return Ok(());
    };
    // The garbage collector changes only finalizers and owners. A role's labels decide which roles aggregate it.
    let is_unchanged = old.is_some_and(|old| {
        let (meta, before) = (new.meta(), old.meta());
        RoleRules::of(new) == RoleRules::of(old)
            && bound(new) == bound(old)
            && (&meta.labels, &meta.annotations) == (&before.labels, &before.annotations)
    });
    if is_unchanged {
        return Ok(());
    }
    let namespace = new.meta().namespace.as_deref().unwrap_or_default();
    if let Some(role) = RoleRules::of(new) {
        return check_role(api, user, old, new, namespace, &role);
    }
    let Some((role, _)) = bound(new) else { return Ok(()) };
    let resource = if role.kind == "Role" { "roles" } else { "clusterroles" };
    if may(api, user, "bind", resource, namespace, &role.name) {
        return Ok(());
    }
    let requested = rbac::rules_of(api, role, namespace)?;
    confirm(api, user, namespace, &requested).map_err(|why| ApiError::forbidden(new.kind(), new.name(), why))
}

/// The permissions that a role grants.
#[derive(PartialEq)]
struct RoleRules<'a> {
    rules: &'a [PolicyRule],
    aggregation: Option<&'a AggregationRule>,
}

impl<'a> RoleRules<'a> {
    fn of(object: &'a Object) -> Option<Self> {
        if let Some(role) = object.get::<Role>() {
            return Some(Self { rules: role.rules.as_deref().unwrap_or_default(), aggregation: None });
        }
        let role = object.get::<ClusterRole>()?;
        let rules = role.rules.as_deref().unwrap_or_default();
        Some(Self { rules, aggregation: role.aggregation_rule.as_ref() })
    }
}

fn check_role(
    api: &Api,
    user: &User,
    old: Option<&Object>,
    new: &Object,
    namespace: &str,
    role: &RoleRules<'_>,
) -> Result<(), ApiError> {
    let resource = new.kind().info().plural;
    if may(api, user, "escalate", resource, namespace, new.name()) {
        return Ok(());
    }
    let refused = |reason: String| ApiError::forbidden(new.kind(), new.name(), reason);
    confirm(api, user, namespace, role.rules).map_err(refused)?;
    let was_aggregated = old.and_then(RoleRules::of).is_some_and(|role| role.aggregation.is_some());
    let is_aggregated = was_aggregated || role.aggregation.is_some();
    if is_aggregated && confirm(api, user, namespace, &everything()).is_err() {
        // It aggregates the rules of any role that others label.
        return Err(refused("must have cluster-admin privileges to use an aggregationRule".into()));
    }
    Ok(())
}

/// Returns the rules of `cluster-admin`.
pub fn everything() -> [PolicyRule; 2] {
    let all = || Some(vec!["*".to_string()]);
    let verbs = || vec!["*".to_string()];
    [
        PolicyRule { verbs: verbs(), api_groups: all(), resources: all(), ..PolicyRule::default() },
        PolicyRule { verbs: verbs(), non_resource_urls: all(), ..PolicyRule::default() },
    ]
}

fn may(api: &Api, user: &User, verb: &str, resource: &str, namespace: &str, name: &str) -> bool {
    let resource =
        ResourceAttributes { group: GROUP, resource, name, namespace, ..ResourceAttributes::default() };
    api.decide(&Attributes { user, verb, on: RequestTarget::Resource(resource) }).allowed
}

fn confirm(api: &Api, user: &User, namespace: &str, requested: &[PolicyRule]) -> Result<(), String> {
    let (held, faults) = api.rules_for(user, namespace);
    let missing = covers(&held, requested);
    if missing.is_empty() {
        return Ok(());
    }
    let mut missing: Vec<String> = missing.iter().map(format_rule).collect();
    missing.order();
    let faults = match faults.as_slice() {
        [] => String::new(),
        faults => format!("; resolution errors: [{}]", faults.join(", ")),
    };
    let (name, groups) = (base::quote::quote(&user.name), quoted(&user.groups));
    Err(format!(
        "user {name} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{}{faults}",
        missing.join("\n")
    ))
}
