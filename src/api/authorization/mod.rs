//! Who may do what: the authorizer, a pure decision over roles and bindings, and what follows from it (SEC-4, API-15).
//!
//! A request is described by its [`Attributes`]. Members of `system:masters` may do everything; nodes are judged by what
//! runs on them (`node`); all others, and nodes that are not let through there, by roles (`rbac`). Nobody gives away what
//! they do not have (`escalation`).
//!
//! Architecture Invariant: nothing here knows of HTTP, and actors inside this process are never asked.

mod attributes;
mod certificates;
mod defaults;
mod escalation;
mod index;
mod node;
mod parameters;
mod rbac;
mod rules;
#[cfg(test)]
mod tests;

use object::Kind;

use crate::identity::User;
use crate::{Api, ApiError};
pub(crate) use attributes::{Attributes, On, ResourceAttributes};
pub(crate) use certificates::{check_certificate, stamp_requester};
pub(crate) use escalation::{check as check_escalation, everything};
pub(crate) use index::Bindings;
pub(crate) use node::{restrict as restrict_node, restrict_token};
pub(crate) use parameters::check as check_parameters;

/// The API group of roles and bindings.
const GROUP: &str = "rbac.authorization.k8s.io";

/// The kinds whose objects say who may do what.
const KINDS: [Kind; 4] = [Kind::ClusterRole, Kind::ClusterRoleBinding, Kind::Role, Kind::RoleBinding];

/// Whether something may be done, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    /// What allows it, or what was wrong with what might have.
    pub(crate) reason: String,
}

impl Decision {
    /// Of a member of `system:masters`, who may do everything.
    pub(crate) fn for_master() -> Self {
        Self { allowed: true, reason: String::new() }
    }
}

impl Api {
    /// Whether the request may be made.
    pub(crate) fn decide(&self, asked: &Attributes<'_>) -> Decision {
        if asked.user.is_master() {
            return Decision::for_master();
        }
        if let Some(node) = asked.user.node_name() {
            let decision = node::decide(self, node, asked);
            if decision.allowed {
                return decision;
            }
            let by_role = rbac::decide(self, asked);
            return if by_role.allowed || decision.reason.is_empty() { by_role } else { decision };
        }
        rbac::decide(self, asked)
    }

    /// Refuses a request that may not be made, in Kubernetes' words.
    pub(crate) fn authorize(&self, asked: &Attributes<'_>) -> Result<(), ApiError> {
        let decision = self.decide(asked);
        if decision.allowed { Ok(()) } else { Err(asked.refusal(&decision.reason)) }
    }

    /// Everything that a user may do by roles in a namespace, and what was wrong with those that might have added to it.
    pub(crate) fn rules_for(
        &self,
        user: &User,
        namespace: &str,
    ) -> (Vec<k8s_openapi::api::rbac::v1::PolicyRule>, Vec<String>) {
        rbac::rules_for(self, user, namespace)
    }

    /// Makes the roles and bindings that every cluster has, and gives back to those that are there what they lack.
    pub fn reconcile_default_roles(&self) -> Result<(), ApiError> {
        defaults::reconcile(self)
    }
}
