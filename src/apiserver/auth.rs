//! Authentication: the owner's token from the kubeconfig, the console in this process, client certificates,
//! and tokens that the API issued.

use std::sync::Arc;

use axum::extract::Request;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};

use super::client_certificate::{CertifiedClient, ClientAuthority};
use super::csrf::is_cross_site;
use super::upgrade;
use api::identity::{TokenError, User};
use api::{Api, ApiError};
use apimachinery::certificates::TlsError;

/// Marks a request from an in-process pipe, which no outside client can reach.
#[derive(Clone, Copy, Debug)]
pub struct TrustedConnection;

/// The prefix of the token that a browser sends as a WebSocket protocol, because it cannot set a header
/// there.
const PROTOCOL_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// The credentials that the API accepts.
#[derive(Clone)]
pub struct Credentials {
    // The hash, so that the comparison takes the same time for every input. `None` without a token: then no
    // input matches.
    owner: Option<[u8; 32]>,
    /// The authority of client certificates; `None`: certificates are no credentials.
    clients: Option<ClientAuthority>,
}

impl Credentials {
    /// Creates credentials with the owner's bearer token; a blank token grants nothing.
    pub fn new(owner_token: &str) -> Self {
        let token = owner_token.trim();
        Self { owner: (!token.is_empty()).then(|| Sha256::digest(token).into()), clients: None }
    }

    /// Also accepts client certificates of this authority.
    pub fn with_certificates_of(self, certificate_pem: &str) -> Result<Self, TlsError> {
        Ok(Self { clients: Some(ClientAuthority::new(certificate_pem)?), ..self })
    }

    /// Returns the client that its certificate chain identifies.
    pub(super) fn certified(&self, api: &Api, chain: &[CertificateDer<'_>]) -> Option<Arc<CertifiedClient>> {
        Some(Arc::new(self.clients.as_ref()?.client(chain, api.server_clock().now())?))
    }

    /// Returns the user of a request; fails without a valid credential (API-1).
    pub(super) fn identify(&self, api: &Api, request: &Request) -> Result<User, ApiError> {
        if request.extensions().get::<TrustedConnection>().is_some() {
            return Ok(User::owner());
        }
        if let Some(user) = certified(api, request) {
            return Ok(user);
        }
        let token = token(request.headers()).ok_or(ApiError::Unauthorized)?;
        self.authenticate(api, &token, &[]).map(|(user, _)| user).map_err(|error| {
            tracing::debug!("authentication failed: {error}");
            ApiError::Unauthorized
        })
    }

    /// Returns the user of a token, and those of the requested audiences that the token has; an empty request
    /// stands for the API itself. The owner's token is for the API only.
    pub(super) fn authenticate(
        &self,
        api: &Api,
        token: &str,
        audiences: &[String],
    ) -> Result<(User, Vec<String>), TokenError> {
        if self.owner != Some(Sha256::digest(token).into()) {
            return api.authenticate(token, audiences);
        }
        let of_api = vec![api.issuer()];
        if audiences.is_empty() || audiences.contains(&of_api[0]) {
            return Ok((User::owner(), of_api));
        }
        Err(TokenError::Audience { given: of_api, requested: audiences.to_vec() })
    }
}

/// Returns true if a request has no credential; an invalid token is not anonymous but refused.
pub(super) fn is_anonymous(api: &Api, request: &Request) -> bool {
    request.extensions().get::<TrustedConnection>().is_none()
        && token(request.headers()).is_none()
        && certified(api, request).is_none()
}

/// Returns the user of the connection's client certificate, if it is still valid and the request is not
/// cross-site.
fn certified(api: &Api, request: &Request) -> Option<User> {
    if is_cross_site(request.uri(), request.headers(), &api.config().cluster_domain) {
        return None;
    }
    request.extensions().get::<Arc<CertifiedClient>>()?.at(api.server_clock().now()).cloned()
}

/// Returns the token of a request; never blank.
fn token(headers: &HeaderMap) -> Option<String> {
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = match given {
        Some(given) => bearer(given)?.to_string(),
        None => of_web_socket(headers)?,
    };
    (!token.trim().is_empty()).then_some(token)
}

/// Returns the token of an `Authorization` header. The scheme's case is ignored (RFC 9110).
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Returns true if a WebSocket protocol is a token.
pub(super) fn is_token(protocol: &str) -> bool {
    protocol.starts_with(PROTOCOL_PREFIX)
}

/// Returns the token among the protocols that a WebSocket client offers. There must be exactly one token, and
/// at least one other protocol.
fn of_web_socket(headers: &HeaderMap) -> Option<String> {
    if !upgrade::is_web_socket(headers) {
        return None;
    }
    let protocols = upgrade::requested_protocols(headers);
    let mut tokens = protocols.iter().filter_map(|protocol| protocol.strip_prefix(PROTOCOL_PREFIX));
    let token = tokens.next()?;
    if tokens.next().is_some() || protocols.len() < 2 {
        return None;
    }
    String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(entries: &[(&'static str, &str)]) -> HeaderMap {
        let entry = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        entries.iter().map(entry).collect()
    }

    #[test]
    fn a_bearer_token_has_a_scheme_of_any_case_and_is_not_blank_api_1() {
        for (header, expected) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc", Some("abc")),
            ("BEARER  abc ", Some("abc")),
            ("Bearer", None),
            ("Bearer ", None),
            ("Bearer \t ", None),
            ("Basic abc", None),
            ("Bearerabc", None),
            ("", None),
        ] {
            assert_eq!(token(&headers(&[("authorization", header)])).as_deref(), expected, "{header:?}");
        }
    }

    /// Terminals in browsers send their token this way.
    #[test]
    fn a_web_socket_may_bring_its_token_as_a_protocol_api_1() {
        let check = |protocols: &str, expected: Option<&str>| {
            let upgrade =
                [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-protocol", protocols)];
            assert_eq!(token(&headers(&upgrade)).as_deref(), expected, "{protocols}");
            assert_eq!(token(&headers(&upgrade[2..])), None, "not a WebSocket: {protocols}");
        };
        check("base64url.bearer.authorization.k8s.io.YWJj, v4.channel.k8s.io", Some("abc"));
        check("v4.channel.k8s.io,base64url.bearer.authorization.k8s.io.YWJj", Some("abc"));
        check("base64url.bearer.authorization.k8s.io.YWJj", None);
        check("base64url.bearer.authorization.k8s.io., v4.channel.k8s.io", None);
        check("base64url.bearer.authorization.k8s.io.*, v4.channel.k8s.io", None);
        let two = "base64url.bearer.authorization.k8s.io.YWJj";
        check(&format!("{two}, {two}, v4.channel.k8s.io"), None);
        check("v4.channel.k8s.io", None);
    }

    /// Regression: with an empty token file, every client had the owner's rights.
    #[test]
    fn a_blank_token_opens_nothing_sec_1() {
        for blank in ["", " ", "\n"] {
            assert_eq!(Credentials::new(blank).owner, None, "{blank:?}");
        }
        assert!(Credentials::new("abc\n").owner == Credentials::new("abc").owner);
    }
}
