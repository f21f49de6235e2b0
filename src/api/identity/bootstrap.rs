//! Bootstrap tokens, the first credential of a machine that joins: Secrets in `kube-system` of the type
//! `bootstrap.kubernetes.io/token`.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use sha2::{Digest, Sha256};

use super::{AUTHENTICATED, TokenError, User};
use crate::Api;
use object::well_known::secret_type::BOOTSTRAP_TOKEN;
use object::{Key, SharedObject};

const NAMESPACE: &str = "kube-system";
/// The group of all bootstrap tokens; the prefix of their additional groups.
const GROUP: &str = "system:bootstrappers";
const UNKNOWN: TokenError = TokenError::Malformed("unknown or expired bootstrap token");

/// Returns the id and the secret of a text in the form of a bootstrap token: `abcdef.0123456789abcdef`.
pub(super) fn parts(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let is_made_of = |text: &str, length| {
        text.len() == length && text.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    (is_made_of(id, 6) && is_made_of(secret, 16)).then_some((id, secret))
}

impl Api {
    /// Returns the user of a bootstrap token.
    pub(super) fn bootstrapper(&self, id: &str, secret: &str) -> Result<User, TokenError> {
        let key = Key::new(NAMESPACE, format!("bootstrap-token-{id}"));
        let stored: SharedObject<Secret> = self.get_as(&key).map_err(|_| UNKNOWN)?;
        let text = |key: &str| {
            let bytes = &stored.data.as_ref()?.get(key)?.0;
            std::str::from_utf8(bytes).ok().map(str::trim)
        };
        // Hashes, so that the comparison takes the same time for every input.
        let same = Sha256::digest(text("token-secret").unwrap_or_default()) == Sha256::digest(secret);
        let going = stored.metadata.deletion_timestamp.is_some();
        let usable = stored.type_.as_deref() == Some(BOOTSTRAP_TOKEN)
            && text("token-id") == Some(id)
            && text("usage-bootstrap-authentication") == Some("true");
        if !same || going || !usable || self.is_expired(text("expiration")) {
            return Err(UNKNOWN);
        }
        let mut groups = vec![GROUP.to_string()];
        let more = text("auth-extra-groups").unwrap_or_default().split(',').filter(|group| !group.is_empty());
        for group in more {
            if !group.starts_with("system:bootstrappers:") {
                return Err(UNKNOWN);
            }
            groups.push(group.into());
        }
        groups.push(AUTHENTICATED.into());
        Ok(User::named(format!("system:bootstrap:{id}"), groups))
    }

    /// Returns true if the token has expired; an unreadable time counts as expired.
    fn is_expired(&self, expiration: Option<&str>) -> bool {
        let Some(text) = expiration.filter(|text| !text.is_empty()) else { return false };
        text.parse::<Timestamp>().map_or(true, |at| at <= self.server_clock().now())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_api::api;

    #[tokio::test(start_paused = true)]
    async fn a_bootstrap_token_is_what_its_secret_says_api_15() {
        let api = api(&[NAMESPACE]);
        let token = "abcdef.0123456789abcdef";
        let data = json!({"token-id": "abcdef", "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true", "auth-extra-groups": "system:bootstrappers:nodes",
            "expiration": "2026-11-22T00:00:00Z"});
        let secret: Secret = serde_json::from_value(json!({"type": BOOTSTRAP_TOKEN,
            "metadata": {"name": "bootstrap-token-abcdef", "namespace": NAMESPACE}, "stringData": data}))
        .unwrap();
        api.create_as(secret).unwrap();
        let (user, _) = api.authenticate(token, &[]).unwrap();
        assert_eq!(user.name, "system:bootstrap:abcdef");
        assert_eq!(user.groups, ["system:bootstrappers", "system:bootstrappers:nodes", AUTHENTICATED]);
        assert!(api.authenticate("abcdef.0123456789abcdee", &[]).is_err(), "another secret");
        assert!(api.authenticate("abcdee.0123456789abcdef", &[]).is_err(), "another name");
        let change = |key: &str, value: &str| {
            let set = |secret: &mut Secret| {
                let value = k8s_openapi::ByteString(value.as_bytes().to_vec());
                secret.data.get_or_insert_default().insert(key.into(), value);
                Ok(())
            };
            api.modify::<Secret>(&Key::new(NAMESPACE, "bootstrap-token-abcdef"), set).unwrap();
            api.authenticate(token, &[]).is_ok()
        };
        assert!(!change("auth-extra-groups", "system:masters"), "groups of others");
        assert!(change("auth-extra-groups", ""));
        assert!(!change("usage-bootstrap-authentication", "false"));
        assert!(change("usage-bootstrap-authentication", "true"));
        assert!(!change("expiration", "soon"));
        assert!(!change("expiration", "2026-11-20T00:00:00Z"));
    }
}
