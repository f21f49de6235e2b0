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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BoundObjectRef {
    pub(super) name: String,
    pub(super) uid: String,
}

/// The claims of a token. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claims {
    pub(super) id: String,
    pub(super) audiences: Vec<String>,
    pub(super) issued_at: i64,
    pub(super) not_before: i64,
    /// [`NEVER`] if only the deletion of its bound object ends the token.
    pub(super) expires_at: i64,
    /// The time after which the holder should have fetched a new token.
    pub(super) warn_after: Option<i64>,
    pub(super) namespace: String,
    pub(super) account: BoundObjectRef,
    pub(super) pod: Option<BoundObjectRef>,
    pub(super) secret: Option<BoundObjectRef>,
    pub(super) node: Option<BoundObjectRef>,
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

#[derive(Serialize, Deserialize)]
struct Payload {
    aud: Vec<String>,
    #[serde(default = "never", skip_serializing_if = "is_never")]
    exp: i64,
    iat: i64,
    iss: String,
    jti: String,
    #[serde(rename = "kubernetes.io")]
    kubernetes: PrivateClaims,
    nbf: i64,
    sub: String,
}

#[derive(Serialize, Deserialize)]
struct PrivateClaims {
    namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<BoundObjectRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pod: Option<BoundObjectRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<BoundObjectRef>,
    serviceaccount: BoundObjectRef,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    warnafter: Option<i64>,
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
    pub(super) fn sign(&self, claims: &Claims, issuer: &str) -> Result<String, String> {
        let payload = Payload {
            aud: claims.audiences.clone(),
            exp: claims.expires_at,
            iat: claims.issued_at,
            iss: issuer.to_owned(),
            jti: claims.id.clone(),
            kubernetes: PrivateClaims {
                namespace: claims.namespace.clone(),
                node: claims.node.clone(),
                pod: claims.pod.clone(),
                secret: claims.secret.clone(),
                serviceaccount: claims.account.clone(),
                warnafter: claims.warn_after,
            },
            nbf: claims.not_before,
            sub: format!("system:serviceaccount:{}:{}", claims.namespace, claims.account.name),
        };
        let header = json!({"alg": "ES256", "kid": self.key_id}).to_string();
        let payload = serde_json::to_vec(&payload).map_err(|error| error.to_string())?;
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
        let mut payload: Payload =
            base::json::from_slice(&decode(payload)?).map_err(|_| bad("the token has invalid claims"))?;
        if payload.iss != issuer {
            if !ClusterDomain::is_issuer(&payload.iss) {
                return Err(bad("the token has another issuer"));
            }
            for audience in &mut payload.aud {
                if *audience == payload.iss {
                    issuer.clone_into(audience);
                }
            }
        }
        let private = payload.kubernetes;
        Ok(Claims {
            id: payload.jti,
            audiences: payload.aud,
            issued_at: payload.iat,
            not_before: payload.nbf,
            expires_at: payload.exp,
            warn_after: private.warnafter,
            namespace: private.namespace,
            account: private.serviceaccount,
            pod: private.pod,
            secret: private.secret,
            node: private.node,
        })
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
            id: "j".into(),
            audiences: vec![ISSUER.into()],
            issued_at: 10,
            not_before: 10,
            expires_at: 3610,
            warn_after: Some(3617),
            namespace: "ns".into(),
            account: bound("robot"),
            pod: Some(bound("p")),
            secret: None,
            node: Some(bound("n")),
        }
    }

    #[test]
    fn a_token_says_what_it_was_made_to_say_and_nothing_else_passes_sa_1() {
        let signer = Signer::ephemeral();
        let token = signer.sign(&claims(), ISSUER).unwrap();
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
        let token = signer.sign(&other, ISSUER).unwrap();
        let now = "https://kubernetes.default.svc.corp.test";
        assert_eq!(signer.verify(&token, now).unwrap().audiences, [now, "vault"]);
        let foreign = signer.sign(&claims(), "https://evil.example").unwrap();
        assert!(signer.verify(&foreign, ISSUER).is_err());
    }

    #[test]
    fn a_key_in_a_file_outlives_the_process_sa_1() {
        let pem = Signer::generate_key();
        let token = Signer::new(&pem).unwrap().sign(&claims(), ISSUER).unwrap();
        assert!(Signer::new(&pem).unwrap().verify(&token, ISSUER).is_ok());
        assert!(Signer::new("nonsense").is_err());
    }
}
