//! Users: the cluster's owner, and service accounts through tokens issued here (SA-1).
//!
//! Tokens are as in Kubernetes: signed, bound to an account and often to a pod, and invalid once they have
//! expired or their bound object is deleted.

mod bootstrap;
mod issue;
mod jwt;
mod long_lived;
mod remote_headers;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Secret, ServiceAccount};
use serde_json::{Value, json};

use super::Api;
pub use jwt::Signer;
use jwt::{AccountClaims, BoundObjectRef, Claims};
use object::{Key, SharedObject, TypedKind};
pub use remote_headers::{EXTRA_HEADER_PREFIX, GROUP_HEADER, UID_HEADER, USERNAME_HEADER};

/// The time that a terminating pod's token remains valid after the pod's grace period.
const LEEWAY_SECONDS: i64 = 60;

/// An authenticated user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// `podium-admin`, `system:serviceaccount:NAMESPACE:NAME`.
    pub name: String,
    /// The uid of the user's object in the API.
    pub uid: Option<String>,
    /// The user's groups.
    pub groups: Vec<String>,
    /// Further attributes, such as the pod that a token is bound to.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The group that may do everything.
const MASTERS: &str = "system:masters";
/// The group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of all unauthenticated users.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of unauthenticated users.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of nodes' kubelets.
const NODES: &str = "system:nodes";

impl User {
    /// Returns a user with this name and these groups.
    pub fn named(name: impl Into<String>, groups: Vec<String>) -> Self {
        Self { name: name.into(), uid: None, groups, extra: BTreeMap::new() }
    }

    /// Returns a service account by its names, without its uid.
    pub(crate) fn of_service_account(namespace: &str, name: &str) -> Self {
        let groups =
            ["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}"), AUTHENTICATED];
        Self::named(format!("system:serviceaccount:{namespace}:{name}"), groups.map(String::from).to_vec())
    }

    /// Returns the unauthenticated user.
    pub fn anonymous() -> Self {
        Self::named(ANONYMOUS, vec![UNAUTHENTICATED.into()])
    }

    /// Returns the user for an actor of this process, by its field manager name: the user that the actor has
    /// in Kubernetes, where each is a separate client. The API itself acts as Kubernetes' loopback client,
    /// which may do everything.
    pub(crate) fn of_actor(name: &str) -> Self {
        match name {
            "kube-scheduler" => Self::named("system:kube-scheduler", vec![AUTHENTICATED.into()]),
            "kube-controller-manager" => {
                Self::named("system:kube-controller-manager", vec![AUTHENTICATED.into()])
            }
            // The handle does not know the node's name.
            "kubelet" => Self::named("system:node", vec![NODES.into(), AUTHENTICATED.into()]),
            controller if controller.ends_with("-controller") => {
                Self::of_service_account("kube-system", controller)
            }
            _ => Self::named("system:apiserver", vec![MASTERS.into(), AUTHENTICATED.into()]),
        }
    }

    /// Returns the `UserInfo` for reviews and logs.
    pub fn info(&self) -> Value {
        let mut value = json!({"username": self.name});
        if let Some(uid) = &self.uid {
            value["uid"] = uid.as_str().into();
        }
        if !self.groups.is_empty() {
            value["groups"] = json!(self.groups);
        }
        if !self.extra.is_empty() {
            value["extra"] = json!(self.extra);
        }
        value
    }

    /// Returns true if the user may do everything.
    pub fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }

    /// Returns the node whose kubelet the user is.
    pub fn node_name(&self) -> Option<&str> {
        let name = self.name.strip_prefix("system:node:").filter(|name| !name.is_empty())?;
        self.groups.iter().any(|group| group == NODES).then_some(name)
    }

    /// Returns the cluster's owner, who may do everything.
    pub fn owner() -> Self {
        Self {
            name: "podium-admin".into(),
            uid: None,
            groups: vec![MASTERS.into(), AUTHENTICATED.into()],
            extra: BTreeMap::new(),
        }
    }
}

/// The reason why a token is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It was not issued here.
    #[error("{0}")]
    Malformed(&'static str),
    /// It has expired, or is not valid yet.
    #[error("service account token has expired")]
    Expired,
    /// It is for other audiences.
    #[error("token audiences {given:?} is invalid for the target audiences {requested:?}")]
    Audience {
        /// The token's audiences.
        given: Vec<String>,
        /// The requested audiences.
        requested: Vec<String>,
    },
    /// Its bound object is deleted.
    #[error("service account token has been invalidated")]
    Invalidated,
}

impl Api {
    /// Returns the issuer of the cluster's tokens, which is also the audience of those that name none.
    pub fn issuer(&self) -> String {
        self.inner.config.cluster_domain.issuer()
    }

    /// Returns the user of a token, and those of the requested audiences that the token has; an empty request
    /// stands for the API itself.
    pub fn authenticate(&self, token: &str, audiences: &[String]) -> Result<(User, Vec<String>), TokenError> {
        if let Some((id, secret)) = bootstrap::parts(token) {
            let user = self.bootstrapper(id, secret)?;
            let of_api = vec![self.issuer()];
            if audiences.is_empty() || audiences.contains(&of_api[0]) {
                return Ok((user, of_api));
            }
            return Err(TokenError::Audience { given: of_api, requested: audiences.to_vec() });
        }
        let issuer = self.issuer();
        let claims = self.inner.signer.verify(token, &issuer)?;
        let requested = if audiences.is_empty() { vec![issuer] } else { audiences.to_vec() };
        let shared: Vec<String> =
            requested.iter().filter(|a| claims.audiences.contains(a)).cloned().collect();
        if shared.is_empty() {
            return Err(TokenError::Audience { given: claims.audiences, requested });
        }
        let now = self.server_clock().now().as_second();
        if now >= claims.expires_at || now < claims.not_before {
            return Err(TokenError::Expired);
        }
        self.check_bound(&claims.kubernetes)?;
        Ok((user(&claims), shared))
    }

    /// Checks that a token's bound objects exist and have the same uids.
    fn check_bound(&self, claims: &AccountClaims) -> Result<(), TokenError> {
        let namespace = &claims.namespace;
        let account: SharedObject<ServiceAccount> = self.bound(namespace, &claims.account)?;
        if account.metadata.deletion_timestamp.as_ref().is_some_and(|at| self.is_over(at.0)) {
            return Err(TokenError::Invalidated);
        }
        if let Some(pod) = &claims.pod {
            let pod: SharedObject<Pod> = self.bound(namespace, pod)?;
            if pod.metadata.deletion_timestamp.as_ref().is_some_and(|at| self.is_over(at.0)) {
                return Err(TokenError::Invalidated);
            }
        }
        if let Some(secret) = &claims.secret {
            self.bound::<Secret>(namespace, secret)?;
        }
        if let (Some(node), None) = (&claims.node, &claims.pod) {
            self.bound::<Node>("", node)?;
        }
        Ok(())
    }

    fn bound<T: TypedKind>(
        &self,
        namespace: &str,
        bound: &BoundObjectRef,
    ) -> Result<SharedObject<T>, TokenError> {
        let found = self.get_as::<T>(&Key::new(namespace, bound.name.as_str()));
        found.ok().filter(|object| object.uid() == bound.uid).ok_or(TokenError::Invalidated)
    }

    fn is_over(&self, at: Timestamp) -> bool {
        self.server_clock().now().as_second() > at.as_second().saturating_add(LEEWAY_SECONDS)
    }

    /// Returns the keys for verifying tokens, as a JSON Web Key Set.
    pub fn token_keys(&self) -> Value {
        self.inner.signer.key_set()
    }
}

fn user(claims: &Claims) -> User {
    let AccountClaims { namespace, account, pod, node, .. } = &claims.kubernetes;
    let mut extra = BTreeMap::new();
    let mut insert = |key: &str, value: String| {
        extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value]);
    };
    insert("credential-id", format!("JTI={}", claims.id));
    for (what, bound) in [("pod", pod), ("node", node)] {
        if let Some(bound) = bound {
            insert(&format!("{what}-name"), bound.name.clone());
            insert(&format!("{what}-uid"), bound.uid.clone());
        }
    }
    let uid = Some(account.uid.clone());
    User { uid, extra, ..User::of_service_account(namespace, &account.name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_is_who_it_would_be_in_kubernetes_api_16() {
        for (actor, name, group, is_master) in [
            ("kube-scheduler", "system:kube-scheduler", AUTHENTICATED, false),
            ("kube-controller-manager", "system:kube-controller-manager", AUTHENTICATED, false),
            ("kubelet", "system:node", NODES, false),
            (
                "clusterrole-aggregation-controller",
                "system:serviceaccount:kube-system:clusterrole-aggregation-controller",
                "system:serviceaccounts:kube-system",
                false,
            ),
            ("kube-apiserver", "system:apiserver", MASTERS, true),
        ] {
            let user = User::of_actor(actor);
            assert_eq!((user.name.as_str(), user.is_master()), (name, is_master), "{actor}");
            assert!(user.groups.iter().any(|one| one == group), "{actor}: {:?}", user.groups);
        }
    }
}
