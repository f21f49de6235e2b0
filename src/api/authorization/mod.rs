//! Authorization: the authorizer, a pure decision over roles and bindings, and the checks that use it (SEC-4,
//! API-15).
//!
//! A request is described by its [`Attributes`]. Members of `system:masters` may do everything; nodes are
//! authorized by the pods that run on them (`node`); all other users, and nodes that are not authorized
//! there, by roles (`rbac`). No user can grant permissions that they lack (`escalation`).
//!
//! Architecture Invariant: nothing here depends on HTTP, and actors of this process are not subject to
//! authorization.

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
pub use attributes::{Attributes, RequestTarget, ResourceAttributes};
pub(crate) use certificates::{check_certificate, stamp_requester};
pub(crate) use escalation::check as check_escalation;
pub use escalation::everything;
pub(crate) use index::Bindings;
pub(crate) use node::restrict as restrict_node;
pub use node::restrict_token;
pub(crate) use parameters::check as check_parameters;

/// The API group of roles and bindings.
const GROUP: &str = "rbac.authorization.k8s.io";

/// The kinds of RBAC objects.
const KINDS: [Kind; 4] = [Kind::ClusterRole, Kind::ClusterRoleBinding, Kind::Role, Kind::RoleBinding];

/// The decision on a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// True if the request may proceed.
    pub allowed: bool,
    /// The role that allows it, or the errors of roles that might have.
    pub reason: String,
}

impl Decision {
    /// Returns the decision for a member of `system:masters`, who may do everything.
    pub fn for_master() -> Self {
        Self { allowed: true, reason: String::new() }
    }
}

impl Api {
    /// Decides on a request.
    pub fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        if attributes.user.is_master() {
            return Decision::for_master();
        }
        if let Some(node) = attributes.user.node_name() {
            let decision = node::decide(self, node, attributes);
            if decision.allowed {
                return decision;
            }
            let by_role = rbac::decide(self, attributes);
            return if by_role.allowed || decision.reason.is_empty() { by_role } else { decision };
        }
        rbac::decide(self, attributes)
    }

    /// Refuses a request that is not allowed, in Kubernetes' words.
    pub fn authorize(&self, attributes: &Attributes<'_>) -> Result<(), ApiError> {
        let decision = self.decide(attributes);
        if decision.allowed { Ok(()) } else { Err(attributes.refusal(&decision.reason)) }
    }

    /// Returns all rules of a user's roles in a namespace, and the errors of roles that could not be read.
    pub fn rules_for(
        &self,
        user: &User,
        namespace: &str,
    ) -> (Vec<k8s_openapi::api::rbac::v1::PolicyRule>, Vec<String>) {
        rbac::rules_for(self, user, namespace)
    }

    /// Creates the default roles and bindings, and restores missing permissions of existing ones.
    pub fn reconcile_default_roles(&self) -> Result<(), ApiError> {
        defaults::reconcile(self)
    }
}
