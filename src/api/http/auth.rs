//! Who may ask: the holder of the kubeconfig's token, the console in this process, and service accounts.

use axum::extract::Request;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};

use super::upgrade;
use crate::identity::{ISSUER, TokenError, User};
use crate::{Api, ApiError};

/// Marks a request that came through an in-process pipe: nobody else can reach that.
#[derive(Clone, Copy, Debug)]
pub struct Trusted;

/// What stands before the token that a browser sends as one of the protocols of a WebSocket, where it can set no
/// header.
const PROTOCOL_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// The secrets that open the API.
#[derive(Clone)]
pub struct Credentials {
    // The hash, so that comparing takes the same time whatever was sent. None when there is no token: nothing
    // that a client can send is it then.
    owner: Option<[u8; 32]>,
}

impl Credentials {
    /// The owner's bearer token; a blank one opens nothing.
    pub fn new(owner_token: &str) -> Self {
        let token = owner_token.trim();
        Self { owner: (!token.is_empty()).then(|| Sha256::digest(token).into()) }
    }

    /// Who asks; a request without a credential that holds is refused (API-1).
    pub(super) fn identify(&self, api: &Api, request: &Request) -> Result<User, ApiError> {
        if request.extensions().get::<Trusted>().is_some() {
            return Ok(User::owner());
        }
        let token = token(request.headers()).ok_or(ApiError::Unauthorized)?;
        self.authenticate(api, &token, &[]).map(|(user, _)| user).map_err(|error| {
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
        if self.owner != Some(Sha256::digest(token).into()) {
            return api.authenticate(token, audiences);
        }
        let of_api = vec![ISSUER.to_string()];
        if audiences.is_empty() || audiences.contains(&of_api[0]) {
            return Ok((User::owner(), of_api));
        }
        Err(TokenError::Audience { given: of_api, wanted: audiences.to_vec() })
    }
}

/// Whether a request brings no credential: one that does not hold is worse than none.
pub(super) fn is_anonymous(request: &Request) -> bool {
    request.extensions().get::<Trusted>().is_none() && token(request.headers()).is_none()
}

/// The token that a request brings; never blank.
fn token(headers: &HeaderMap) -> Option<String> {
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = match given {
        Some(given) => bearer(given)?.to_string(),
        None => of_web_socket(headers)?,
    };
    (!token.trim().is_empty()).then_some(token)
}

/// The token of an `Authorization` header. The scheme's case means nothing (RFC 9110).
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The token among the protocols of a WebSocket: one, beside a protocol to speak.
fn of_web_socket(headers: &HeaderMap) -> Option<String> {
    if !upgrade::is_web_socket(headers) {
        return None;
    }
    let protocols = upgrade::asked_protocols(headers);
    let mut tokens = protocols.iter().filter_map(|protocol| protocol.strip_prefix(PROTOCOL_PREFIX));
    let token = tokens.next()?;
    if tokens.next().is_some() || protocols.len() < 2 {
        return None;
    }
    String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()
}

/// Refuses to act as somebody else. A server that overlooked these headers would do as the owner what the caller
/// wanted to know it may not do.
pub(super) fn refuse_impersonation(user: &User, headers: &HeaderMap) -> Result<(), ApiError> {
    let asked =
        headers.iter().filter_map(|(name, value)| Some((name.as_str().strip_prefix("impersonate-")?, value)));
    let asked = asked.filter_map(|(what, value)| {
        let (resource, group) = match what {
            "user" => ("users", ""),
            "group" => ("groups", ""),
            "uid" => ("uids", "authentication.k8s.io"),
            extra if extra.starts_with("extra-") => ("userextras", "authentication.k8s.io"),
            _ => return None,
        };
        Some((resource, group, String::from_utf8_lossy(value.as_bytes()).into_owned()))
    });
    // The user is what the caller will recognise.
    let Some((resource, group, name)) = asked.min_by_key(|(resource, ..)| *resource != "users") else {
        return Ok(());
    };
    let qualified = if group.is_empty() { resource.to_string() } else { format!("{resource}.{group}") };
    Err(ApiError::NotPermitted(format!(
        "{qualified} \"{name}\" is forbidden: User \"{}\" cannot impersonate resource \"{resource}\" in API group \
         \"{group}\" at the cluster scope: podium does not impersonate",
        user.name
    )))
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

    /// API-FOUND 5, RELIABILITY-FOUND 21.
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

    /// API-FOUND 25, RELIABILITY-FOUND 27: what browsers' terminals send.
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

    /// API-FOUND 9, RELIABILITY-FOUND 27.
    #[test]
    fn acting_as_somebody_else_is_refused_not_overlooked_api_1() {
        let refusal = |entries: &[(&'static str, &str)]| {
            refuse_impersonation(&User::owner(), &headers(entries)).err().map(|error| error.to_string())
        };
        assert_eq!(refusal(&[("accept", "impersonate-user")]), None);
        let user = refusal(&[("impersonate-group", "g"), ("impersonate-user", "nobody")]).unwrap();
        assert!(user.starts_with("users \"nobody\" is forbidden: User "), "{user}");
        for (header, resource) in [
            ("impersonate-user", "users"),
            ("impersonate-group", "groups"),
            ("impersonate-uid", "uids.authentication.k8s.io"),
            ("impersonate-extra-scopes", "userextras.authentication.k8s.io"),
        ] {
            assert!(
                refusal(&[(header, "x")]).unwrap().starts_with(&format!("{resource} \"x\" is forbidden"))
            );
        }
    }

    /// RELIABILITY-FOUND 21: with an empty token file everybody was the owner.
    #[test]
    fn a_blank_token_opens_nothing_sec_1() {
        for blank in ["", " ", "\n"] {
            assert_eq!(Credentials::new(blank).owner, None, "{blank:?}");
        }
        assert!(Credentials::new("abc\n").owner == Credentials::new("abc").owner);
    }
}
