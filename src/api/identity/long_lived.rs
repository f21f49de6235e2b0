//! Tokens that do not expire: those of Secrets that users create for an account
//! (`kubernetes.io/service-account-token`). Such a token ends with its Secret or its account.

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};

use super::jwt::{AccountClaims, BoundObjectRef, Claims, NEVER};
use crate::{Api, ApiError};
use object::SharedObject;

impl Api {
    /// Returns a token of the account for this Secret.
    pub fn token_for_secret(
        &self,
        account: &SharedObject<ServiceAccount>,
        secret: &SharedObject<Secret>,
    ) -> Result<String, ApiError> {
        let now = self.server_clock().now().as_second();
        let issuer = self.issuer();
        let bound = AccountClaims {
            namespace: account.namespace().into(),
            account: BoundObjectRef { name: account.name().into(), uid: account.uid().into() },
            secret: Some(BoundObjectRef { name: secret.name().into(), uid: secret.uid().into() }),
            ..AccountClaims::default()
        };
        let claims = Claims::new(&issuer, vec![issuer.clone()], now, NEVER, bound);
        self.inner.signer.sign(&claims).map_err(ApiError::Internal)
    }
}
