//! Who may ask: the holder of the kubeconfig's token, the console in this process, and service accounts.

use axum::extract::Request;
use http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};

use crate::api::identity::{ISSUER, TokenError, User};
use crate::api::{Api, ApiError};

/// Marks a request that came through an in-process pipe: nobody else can reach that.
#[derive(Clone, Copy, Debug)]
pub struct Trusted;

/// The secrets that open the API.
#[derive(Clone)]
pub struct Credentials {
    // The hash, so that comparing takes the same time whatever was sent.
    owner: [u8; 32],
}

impl Credentials {
    /// The owner's bearer token.
    pub fn new(owner_token: &str) -> Self {
        Self { owner: Sha256::digest(owner_token).into() }
    }

    /// Who asks; a request without a credential that holds is refused (API-1).
    pub(super) fn identify(&self, api: &Api, request: &Request) -> Result<User, ApiError> {
        if request.extensions().get::<Trusted>().is_some() {
            return Ok(User::owner());
        }
        let given = request.headers().get(AUTHORIZATION).and_then(|v| v.to_str().ok());
        let Some(token) = given.and_then(|v| v.strip_prefix("Bearer ")).map(str::trim) else {
            return Err(ApiError::Unauthorized);
        };
        self.authenticate(api, token, &[]).map(|(user, _)| user).map_err(|error| {
            tracing::debug!("a request was refused: {error}");
            ApiError::Unauthorized
        })
    }

    /// Whose token it is, and which of the wanted audiences it is for; none wanted = the API itself. The owner's is
    /// for the API alone.
    pub(super) fn authenticate(
        &self,
        api: &Api,
        token: &str,
        audiences: &[String],
    ) -> Result<(User, Vec<String>), TokenError> {
        if <[u8; 32]>::from(Sha256::digest(token)) != self.owner {
            return api.authenticate(token, audiences);
        }
        let of_api = vec![ISSUER.to_string()];
        if audiences.is_empty() || audiences.contains(&of_api[0]) {
            return Ok((User::owner(), of_api));
        }
        Err(TokenError::Audience { given: of_api, wanted: audiences.to_vec() })
    }
}
