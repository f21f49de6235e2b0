//! Tokens as text: JSON Web Tokens signed with ES256, in the shape Kubernetes gives its own.
//!
//! The crate `jsonwebtoken` (11.1) does not fit: since its version 10 it has no backend for ring, which signs
//! everywhere here. Its two backends are aws-lc, which is C, and RustCrypto's crates, which bring RSA, HMAC,
//! P-384 and Ed25519 that no token here may use; a backend for ring would be longer than the code it
//! replaces, which is two splits at a dot and one comparison of `alg`. `biscuit` uses ring, but also chrono
//! and `num-bigint`. Here ring does ECDSA, and libraries do base64url and JSON; keys, bound objects and
//! expiry by the cluster's clock would be implemented here in any case.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::TokenError;
use object::ClusterDomain;

/// The limit on a token's length; HTTP headers cannot hold more either.
const MAX_TOKEN: usize = 16 * 1024;

/// Signs and verifies tokens with the cluster's key.
pub struct Signer {
    pair: EcdsaKeyPair,
    key_id: String,
}

impl std::fmt::Debug for Signer {
    /// Omits the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// An object by name and uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BoundObjectRef {
    pub(super) name: String,
    pub(super) uid: String,
}

/// The expiry of a token that does not expire; the token then has no such claim.
pub(super) const NEVER: i64 = i64::MAX;

fn never() -> i64 {
    NEVER
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_never(at: &i64) -> bool {
    *at == NEVER
}

/// The claims of a token. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claims {
    #[serde(rename = "aud")]
    pub(super) audiences: Vec<String>,
    /// [`NEVER`] if only the deletion of its bound object ends the token.
    #[serde(rename = "exp", default = "never", skip_serializing_if = "is_never")]
    pub(super) expires_at: i64,
    #[serde(rename = "iat")]
    issued_at: i64,
    #[serde(rename = "iss")]
    issuer: String,
    #[serde(rename = "jti")]
    pub(super) id: String,
    #[serde(rename = "kubernetes.io")]
    pub(super) kubernetes: AccountClaims,
    #[serde(rename = "nbf")]
    pub(super) not_before: i64,
    #[serde(rename = "sub")]
    subject: String,
}

/// A token's account, and the objects that the token is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AccountClaims {
    pub(super) namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<BoundObjectRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pod: Option<BoundObjectRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<BoundObjectRef>,
    #[serde(rename = "serviceaccount")]
    pub(super) account: BoundObjectRef,
    /// The time after which the holder should have fetched a new token.
    #[serde(rename = "warnafter", default, skip_serializing_if = "Option::is_none")]
    pub(super) warn_after: Option<i64>,
}

impl Claims {
    /// Returns the claims of a new token that is valid from now on.
    pub(super) fn new(
        issuer: &str,
        audiences: Vec<String>,
        now: i64,
        expires_at: i64,
        kubernetes: AccountClaims,
    ) -> Self {
        let AccountClaims { namespace, account, .. } = &kubernetes;
        Self {
            audiences,
            expires_at,
            issued_at: now,
            issuer: issuer.into(),
            id: base::random::uuid(),
            subject: format!("system:serviceaccount:{namespace}:{}", account.name),
            kubernetes,
            not_before: now,
        }
    }
}

impl Signer {
    /// Returns a new key, as PEM.
    pub fn generate_key() -> String {
        rcgen::KeyPair::generate().expect("a P-256 key can always be generated").serialize_pem()
    }

    /// Returns a signer with a new key that ends with the process.
    pub(crate) fn ephemeral() -> Self {
        Self::new(&Self::generate_key()).expect("a new key is valid")
    }

    /// Returns a signer with this key (PEM, P-256).
    pub fn new(key_pem: &str) -> Result<Self, String> {
        let describe =
            |error: &dyn std::fmt::Display| format!("invalid key for service account tokens: {error}");
        let key = rcgen::KeyPair::from_pem(key_pem).map_err(|error| describe(&error))?;
        let der = key.serialize_der();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &SystemRandom::new())
            .map_err(|error| describe(&error))?;
        let key_id = URL_SAFE_NO_PAD.encode(Sha256::digest(pair.public_key().as_ref()));
        Ok(Self { pair, key_id })
    }

    /// Signs a token with these claims.
    pub(super) fn sign(&self, claims: &Claims) -> Result<String, String> {
        let header = json!({"alg": "ES256", "kid": self.key_id}).to_string();
        let payload = serde_json::to_vec(claims).map_err(|error| error.to_string())?;
        let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload));
        let signature = self
            .pair
            .sign(&SystemRandom::new(), text.as_bytes())
            .map_err(|_| "cannot sign the token".to_string())?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Returns the claims of a token that this key has signed, even if it has expired. A token that was
    /// issued before the cluster's domain changed counts as one of the present issuer.
    pub(super) fn verify(&self, token: &str, issuer: &str) -> Result<Claims, TokenError> {
        let bad = TokenError::Malformed;
        if token.len() > MAX_TOKEN {
            return Err(bad("the token is too long"));
        }
        let (text, signature) = token.rsplit_once('.').ok_or(bad("the token is not a JWT"))?;
        let (header, payload) = text.split_once('.').ok_or(bad("the token is not a JWT"))?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| bad("the token is not base64url"));
        let header: Value =
            serde_json::from_slice(&decode(header)?).map_err(|_| bad("the token's header is not JSON"))?;
        // Only our own algorithm: the token could name "none".
        if header["alg"] != "ES256" {
            return Err(bad("the token's algorithm is not ES256"));
        }
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref())
            .verify(text.as_bytes(), &decode(signature)?)
            .map_err(|_| bad("invalid signature"))?;
        let mut claims: Claims =
            base::json::from_slice(&decode(payload)?).map_err(|_| bad("the token has invalid claims"))?;
        if claims.issuer != issuer {
            if !ClusterDomain::is_issuer(&claims.issuer) {
                return Err(bad("the token has another issuer"));
            }
            for audience in &mut claims.audiences {
                if *audience == claims.issuer {
                    issuer.clone_into(audience);
                }
            }
            issuer.clone_into(&mut claims.issuer);
        }
        Ok(claims)
    }

    pub(super) fn key_set(&self) -> Value {
        // An uncompressed point: 4, then x and y of 32 bytes each.
        let point = self.pair.public_key().as_ref();
        let part =
            |range: std::ops::Range<usize>| URL_SAFE_NO_PAD.encode(point.get(range).unwrap_or_default());
        json!({"keys": [{
            "use": "sig", "kty": "EC", "kid": self.key_id, "crv": "P-256", "alg": "ES256",
            "x": part(1..33), "y": part(33..65),
        }]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

    fn claims() -> Claims {
        let bound = |name: &str| BoundObjectRef { name: name.into(), uid: format!("uid-of-{name}") };
        Claims {
            audiences: vec![ISSUER.into()],
            expires_at: 3610,
            issued_at: 10,
            issuer: ISSUER.into(),
            id: "j".into(),
            kubernetes: AccountClaims {
                namespace: "ns".into(),
                node: Some(bound("n")),
                pod: Some(bound("p")),
                secret: None,
                account: bound("robot"),
                warn_after: Some(3617),
            },
            not_before: 10,
            subject: "system:serviceaccount:ns:robot".into(),
        }
    }

    #[test]
    fn a_token_says_what_it_was_made_to_say_and_nothing_else_passes_sa_1() {
        let signer = Signer::ephemeral();
        let token = signer.sign(&claims()).unwrap();
        assert_eq!(signer.verify(&token, ISSUER), Ok(claims()));
        assert!(Signer::ephemeral().verify(&token, ISSUER).is_err(), "another cluster's key");
        let parts: Vec<&str> = token.split('.').collect();
        let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        let other = URL_SAFE_NO_PAD.encode(r#"{"sub":"system:admin"}"#);
        for forged in [
            String::new(),
            "..".into(),
            format!("{none}.{}.", parts[1]),
            format!("{none}.{}.{}", parts[1], parts[2]),
            format!("{}.{other}.{}", parts[0], parts[2]),
            format!("{}.{}.", parts[0], parts[1]),
            format!("{}.{}.{}", parts[0], parts[1], &parts[2][1..]),
            format!("{token}.x"),
            "a".repeat(MAX_TOKEN + 1),
        ] {
            assert!(signer.verify(&forged, ISSUER).is_err(), "{forged}");
        }
    }

    #[test]
    fn a_token_from_before_the_domain_changed_is_one_of_todays_issuer_net_3() {
        let signer = Signer::ephemeral();
        let mut other = claims();
        other.audiences.push("vault".into());
        let token = signer.sign(&other).unwrap();
        let now = "https://kubernetes.default.svc.corp.test";
        assert_eq!(signer.verify(&token, now).unwrap().audiences, [now, "vault"]);
        let foreign = Claims { issuer: "https://evil.example".into(), ..claims() };
        let foreign = signer.sign(&foreign).unwrap();
        assert!(signer.verify(&foreign, ISSUER).is_err());
    }

    #[test]
    fn a_key_in_a_file_outlives_the_process_sa_1() {
        let pem = Signer::generate_key();
        let token = Signer::new(&pem).unwrap().sign(&claims()).unwrap();
        assert!(Signer::new(&pem).unwrap().verify(&token, ISSUER).is_ok());
        assert!(Signer::new("nonsense").is_err());
    }
}
