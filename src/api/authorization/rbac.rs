//! RBAC: the union of the permissions of a user's roles.

use std::ops::ControlFlow;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role, RoleRef};

use super::Decision;
use super::attributes::{Attributes, RequestTarget};
use super::rules::allows;
use crate::identity::User;
use crate::{Api, ApiError};
use base::quote::quote;
use object::Key;

/// Decides by roles. Only cluster role bindings apply outside of namespaces.
pub(super) fn decide(api: &Api, attributes: &Attributes<'_>) -> Decision {
    let namespace = match attributes.on {
        RequestTarget::Resource(resource) => resource.namespace,
        RequestTarget::Path(_) => "",
    };
    let mut faults = Vec::new();
    let found = visit(api, attributes.user, namespace, &mut faults, |rules, describe| {
        if rules.iter().any(|rule| allows(rule, attributes.verb, attributes.on)) {
            return ControlFlow::Break(format!("RBAC: allowed by {}", describe()));
        }
        ControlFlow::Continue(())
    });
    match found {
        Some(reason) => Decision { allowed: true, reason },
        None => Decision { allowed: false, reason: format_errors(&faults) },
    }
}

/// Returns all rules of a user in a namespace, and the errors of roles that could not be read.
pub(super) fn rules_for(api: &Api, user: &User, namespace: &str) -> (Vec<PolicyRule>, Vec<String>) {
    let (mut all, mut faults) = (Vec::new(), Vec::new());
    let _: Option<()> = visit(api, user, namespace, &mut faults, |rules, _| {
        all.extend_from_slice(rules);
        ControlFlow::Continue(())
    });
    (all, faults)
}

fn format_errors(faults: &[String]) -> String {
    match faults {
        [] => String::new(),
        [one] => format!("RBAC: {one}"),
        many => format!("RBAC: [{}]", many.join(", ")),
    }
}

/// Visits each role that a user is bound to, until `look` returns a value.
fn visit<T>(
    api: &Api,
    user: &User,
    namespace: &str,
    faults: &mut Vec<String>,
    mut look: impl FnMut(&[PolicyRule], &dyn Fn() -> String) -> ControlFlow<T>,
) -> Option<T> {
    let subjects = api.inner.bindings.current(api);
    let scopes: &[&str] = if namespace.is_empty() { &[""] } else { &["", namespace] };
    for scope in scopes {
        for grant in subjects.grants(scope, &user.name, &user.groups) {
            let found = with_rules(api, &grant.role, scope, |rules| look(rules, &|| grant.description()));
            match found {
                Some(ControlFlow::Break(found)) => return Some(found),
                Some(ControlFlow::Continue(())) => {}
                None => {
                    let kind = grant.role.kind.to_lowercase();
                    let fault = format!("{kind}.{} {} not found", super::GROUP, quote(&grant.role.name));
                    if !faults.contains(&fault) {
                        faults.push(fault);
                    }
                }
            }
        }
    }
    None
}

/// Returns the rules of the role that a binding in this namespace (empty: cluster-wide) names; `None` if the
/// role does not exist.
fn with_rules<T>(
    api: &Api,
    role: &RoleRef,
    namespace: &str,
    look: impl FnOnce(&[PolicyRule]) -> T,
) -> Option<T> {
    if role.kind == "Role" {
        let role = api.get_as::<Role>(&Key::new(namespace, role.name.as_str())).ok()?;
        return Some(look(role.rules.as_deref().unwrap_or_default()));
    }
    let role = api.get_as::<ClusterRole>(&Key::new("", role.name.as_str())).ok()?;
    Some(look(role.rules.as_deref().unwrap_or_default()))
}

/// Returns the rules that a binding would grant.
pub(super) fn rules_of(api: &Api, role: &RoleRef, namespace: &str) -> Result<Vec<PolicyRule>, ApiError> {
    with_rules(api, role, namespace, <[PolicyRule]>::to_vec).ok_or_else(|| {
        let (kind, key) = match role.kind.as_str() {
            "Role" => (object::Kind::Role, Key::new(namespace, role.name.as_str())),
            _ => (object::Kind::ClusterRole, Key::new("", role.name.as_str())),
        };
        ApiError::not_found(kind, &key)
    })
}
