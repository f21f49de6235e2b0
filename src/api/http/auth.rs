//! Who may ask: the holder of the kubeconfig's token, and the console in this process.

use axum::extract::Request;
use http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};

use crate::api::ApiError;

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

    /// Refuses a request without the right credential (API-1).
    pub(super) fn check(&self, request: &Request) -> Result<(), ApiError> {
        if request.extensions().get::<Trusted>().is_some() {
            return Ok(());
        }
        let given = request.headers().get(AUTHORIZATION).and_then(|v| v.to_str().ok());
        let token = given.and_then(|v| v.strip_prefix("Bearer "));
        match token {
            Some(token) if <[u8; 32]>::from(Sha256::digest(token.trim())) == self.owner => Ok(()),
            _ => Err(ApiError::Unauthorized),
        }
    }
}
