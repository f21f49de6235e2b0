//! Authorization of requests to one endpoint: anonymous, Basic, or Bearer tokens from a token server (IMG-6).
//!
//! Tokens are shared by all pulls of a scope with the same credential, until shortly before they expire. A request that
//! is refused with a cached token is sent once more with a new one.

use std::collections::HashMap;
use std::time::Duration;

use http::HeaderValue;
use http::header::WWW_AUTHENTICATE;
use parking_lot::Mutex;
use reqwest::{Method, Response, StatusCode, Url};
use serde::Deserialize;
use tokio::time::Instant;

use super::challenge::{Challenge, challenges};
use super::credential::Credential;
use super::error::{RegistryError, shown_text, shown_url};
use super::transport::{Authorization, Call, EndpointTrust, Transport, origin};

/// The maximum number of cached tokens.
const TOKENS: usize = 256;
/// The maximum size of a token server's answer; some put a user's whole rights into a token.
const TOKEN_BYTES: usize = 128 << 10;
/// The specification's default and minimum of a token's life.
const SHORTEST_LIFE: Duration = Duration::from_mins(1);
/// Tokens that claim to live longer are renewed after this time.
const LONGEST_LIFE: Duration = Duration::from_hours(1);

/// The right that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Access {
    Pull,
    Push,
}

impl Access {
    fn actions(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "pull,push",
        }
    }
}

/// Identifies a cached authorization.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct TokenKey {
    origin: String,
    repository: String,
    access: Access,
    credential: [u8; 32],
}

struct CachedAuthorization {
    authorization: Authorization,
    expires: Option<Instant>,
}

/// The authorizations that registries accepted or gave.
#[derive(Default)]
pub(super) struct AuthorizationCache(Mutex<HashMap<TokenKey, CachedAuthorization>>);

impl AuthorizationCache {
    fn get(&self, key: &TokenKey) -> Option<Authorization> {
        let cache = self.0.lock();
        let known = cache.get(key).filter(|known| known.expires.is_none_or(|at| at > Instant::now()))?;
        Some(known.authorization.clone())
    }

    fn insert(&self, key: TokenKey, authorization: Authorization, expires: Option<Instant>) {
        let mut cache = self.0.lock();
        if cache.len() >= TOKENS && !cache.contains_key(&key) {
            let now = Instant::now();
            cache.retain(|_, known| known.expires.is_none_or(|at| at > now));
        }
        if cache.len() >= TOKENS && !cache.contains_key(&key) {
            // Renewing a token costs one request.
            cache.clear();
        }
        cache.insert(key, CachedAuthorization { authorization, expires });
    }

    fn remove(&self, key: &TokenKey) {
        self.0.lock().remove(key);
    }
}

/// The client of one repository at one endpoint with one credential.
pub(super) struct Authorizer<'a> {
    pub(super) transport: &'a Transport,
    pub(super) cache: &'a AuthorizationCache,
    pub(super) trust: &'a EndpointTrust,
    /// The repository at this endpoint.
    pub(super) repository: &'a str,
    pub(super) credential: Option<&'a Credential>,
    /// The repository's full name, for messages.
    pub(super) subject: &'a str,
}

impl Authorizer<'_> {
    /// Sends a request with the authorization that the registry demands. The answer is never 401.
    pub(super) async fn send(&self, call: &Call, access: Access) -> Result<Response, RegistryError> {
        let key = self.key(call, access);
        let mut authorization = self.cache.get(&key);
        let mut is_new = false;
        loop {
            let response = self.transport.send(self.trust, call, authorization.as_ref()).await?;
            if response.status() != StatusCode::UNAUTHORIZED {
                return Ok(response);
            }
            if origin(response.url()) != origin(&call.url) {
                // A server that the registry redirected to never gets the registry's credentials.
                return Err(self.transport.status_error(call, response).await);
            }
            if is_new {
                self.cache.remove(&key);
                return Err(self.denied(access, response).await);
            }
            authorization = Some(self.authorize(call, access, response).await?);
            is_new = true;
        }
    }

    /// Returns the authorization for a request that cannot be sent twice, as far as it is known.
    pub(super) fn known(&self, call: &Call, access: Access) -> Option<Authorization> {
        self.cache.get(&self.key(call, access))
    }

    /// Forgets an authorization that the registry refused.
    pub(super) fn forget(&self, call: &Call, access: Access) {
        self.cache.remove(&self.key(call, access));
    }

    fn key(&self, call: &Call, access: Access) -> TokenKey {
        TokenKey {
            origin: origin(&call.url),
            repository: self.repository.to_owned(),
            access,
            credential: Credential::fingerprint(self.credential),
        }
    }

    async fn denied(&self, access: Access, response: Response) -> RegistryError {
        let detail = self.transport.error_detail(response).await;
        self.denied_because(access, detail.strip_prefix(": ").unwrap_or("401 Unauthorized"))
    }

    fn denied_because(&self, access: Access, reason: &str) -> RegistryError {
        let action = match access {
            Access::Pull => "pull",
            Access::Push => "push",
        };
        RegistryError::Denied { subject: self.subject.to_owned(), action, detail: reason.to_owned() }
    }

    /// Answers the challenge of a response with status 401.
    async fn authorize(
        &self,
        call: &Call,
        access: Access,
        response: Response,
    ) -> Result<Authorization, RegistryError> {
        let headers = response.headers().get_all(WWW_AUTHENTICATE);
        let offered: Vec<Challenge> =
            headers.iter().filter_map(|header| header.to_str().ok()).take(8).flat_map(challenges).collect();
        let of_scheme = |scheme: &str| offered.iter().find(|challenge| challenge.scheme == scheme);
        let (value, life) = if let Some(Credential::RegistryToken(token)) = self.credential {
            (format!("Bearer {}", token.reveal()), None)
        } else if let Some(challenge) = of_scheme("bearer") {
            let (token, life) = self.fetch_token(call, access, challenge).await?;
            (format!("Bearer {token}"), Some(life))
        } else if of_scheme("basic").is_some() {
            match self.credential {
                Some(Credential::Password { username, password }) => {
                    (Credential::basic(username, password), None)
                }
                Some(_) => {
                    return Err(self.denied_because(access, "the registry demands a username and a password"));
                }
                None => return Err(self.denied_because(access, "no basic auth credentials")),
            }
        } else {
            let detail = self.transport.error_detail(response).await;
            return Err(RegistryError::NoChallenge { url: shown_url(&call.url), detail });
        };
        let mut value = HeaderValue::try_from(value).map_err(|_| {
            self.denied_because(access, "the credential has characters that HTTP does not allow")
        })?;
        value.set_sensitive(true);
        let authorization = Authorization { value, origin: origin(&call.url) };
        let expires = life.map(|life| Instant::now() + life);
        self.cache.insert(self.key(call, access), authorization.clone(), expires);
        Ok(authorization)
    }

    /// Gets a token; returns it with the time for which it is used.
    async fn fetch_token(
        &self,
        call: &Call,
        access: Access,
        challenge: &Challenge,
    ) -> Result<(String, Duration), RegistryError> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(default)]
            token: Option<String>,
            #[serde(default)]
            access_token: Option<String>,
            #[serde(default)]
            expires_in: Option<f64>,
        }
        let realm = challenge.parameters.get("realm").map_or("", String::as_str);
        let failed =
            |reason: &str| RegistryError::Token { realm: shown_text(realm, 200), reason: reason.to_owned() };
        let realm_url = Url::parse(realm).map_err(|_| failed("the challenge's realm is not a URL"))?;
        let realm_url =
            super::transport::join(&realm_url, "").map_err(|_| failed("the realm is not an HTTP URL"))?;
        let shown = shown_url(&realm_url);
        let failed = |reason: String| RegistryError::Token { realm: shown.clone(), reason };
        if self.credential.is_some() && call.url.scheme() == "https" && realm_url.scheme() == "http" {
            return Err(failed("credentials are not sent without encryption".into()));
        }
        let request = self.token_request(realm_url, access, challenge);
        let basic = match self.credential {
            Some(Credential::Password { username, password }) => {
                let mut value = HeaderValue::try_from(Credential::basic(username, password))
                    .map_err(|_| failed("the credential has characters that HTTP does not allow".into()))?;
                value.set_sensitive(true);
                Some(Authorization { value, origin: origin(&request.url) })
            }
            _ => None,
        };
        let response = self.transport.send(self.trust, &request, basic.as_ref()).await?;
        let status = response.status();
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::BAD_REQUEST) {
            let detail = self.transport.error_detail(response).await;
            return Err(self.denied_because(access, &format!("{shown} refused a token: {status}{detail}")));
        }
        if !status.is_success() {
            let detail = self.transport.error_detail(response).await;
            return Err(failed(format!("unexpected status {status}{detail}")));
        }
        let body = self.transport.body(&format!("the token of {shown}"), TOKEN_BYTES, response).await?;
        // Serde's messages may quote the token.
        let answer: Answer = serde_json::from_slice(&body)
            .map_err(|error| failed(format!("the answer is not valid JSON at line {}", error.line())))?;
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        let token = filled(answer.token).or_else(|| filled(answer.access_token));
        let token = token.ok_or_else(|| failed("the answer has no token".into()))?;
        let seconds = answer.expires_in.filter(|seconds| seconds.is_finite()).unwrap_or_default();
        let life = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(LONGEST_LIFE);
        // A tenth less, so that a token does not expire on its way.
        Ok((token, life.clamp(SHORTEST_LIFE, LONGEST_LIFE).mul_f32(0.9)))
    }

    fn token_request(&self, mut url: Url, access: Access, challenge: &Challenge) -> Call {
        let own_scope = format!("repository:{}:{}", self.repository, access.actions());
        let scope = challenge.parameters.get("scope").filter(|scope| !scope.is_empty()).unwrap_or(&own_scope);
        let service = challenge.parameters.get("service");
        match self.credential {
            Some(Credential::IdentityToken(token)) => {
                let mut form = Url::parse("form:").expect("a scheme alone is a URL");
                form.query_pairs_mut()
                    .append_pair("grant_type", "refresh_token")
                    .append_pair("client_id", "podium")
                    .append_pair("service", service.map_or("", String::as_str))
                    .append_pair("scope", scope)
                    .append_pair("refresh_token", token.reveal());
                let body = form.query().unwrap_or_default().as_bytes().to_vec();
                let media_type = HeaderValue::from_static("application/x-www-form-urlencoded");
                Call::new(Method::POST, url).with_body(media_type, body).accept("application/json")
            }
            credential => {
                let mut query = url.query_pairs_mut();
                if let Some(service) = service {
                    query.append_pair("service", service);
                }
                query.append_pair("scope", scope);
                if let Some(Credential::Password { username, .. }) = credential {
                    query.append_pair("account", username);
                }
                drop(query);
                Call::get(url)
            }
        }
    }
}
