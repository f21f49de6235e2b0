//! Signs the ConfigMap `cluster-info` in kube-public: a client that joins the cluster with a bootstrap token can
//! verify by the token's signature that the cluster's address is authentic (kubeadm's discovery).
//!
//! A signature is a JWS without its content (RFC 7515, appendix F), made with the token's secret, and stored beside
//! the `kubeconfig` it signs. Signatures of tokens that are deleted, have expired or may not sign are removed.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use ring::hmac;
use serde_json::json;

use super::bootstrap_token::expiration;
use super::context::Context;
use api::{Api, Change};
use base::clock::until;
use object::well_known::secret_type::BOOTSTRAP_TOKEN;
use object::{Key, SharedObject};
use reconcile::{Cache, ReconcileError, Reconciler, ignore_not_found};

const TOKENS_NAMESPACE: &str = "kube-system";
const TOKEN_PREFIX: &str = "bootstrap-token-";
const ID_LENGTH: usize = 6;

const MAP_NAMESPACE: &str = "kube-public";
const MAP: &str = "cluster-info";
/// The signed key.
const CONTENT: &str = "kubeconfig";
/// The prefix of a signature's key; the token's id follows.
const SIGNATURE: &str = "jws-kubeconfig-";

pub(super) fn start(context: &Context) {
    let api = context.api.acting_as("bootstrap-signer");
    context
        .controller(|_| BootstrapSigner { api, secrets: context.caches.of() })
        .keys_of::<ConfigMap>()
        .watches::<ConfigMap, _>(|_, change| map_changed(change))
        .watches::<Secret, _>(|_, change| token_changed(change))
        .run(&context.tasks);
}

/// Returns the only key of the queue, the ConfigMap `cluster-info`.
fn map_key() -> Key {
    Key::new(MAP_NAMESPACE, MAP)
}

fn map_changed(change: &Change) -> Option<Key> {
    Some(change.object.key()).filter(|key| *key == map_key())
}

fn token_changed(change: &Change) -> Option<Key> {
    let key = change.object.key();
    let is_token = key.namespace == TOKENS_NAMESPACE && key.name.starts_with(TOKEN_PREFIX);
    is_token.then(map_key)
}

struct BootstrapSigner {
    api: Api,
    secrets: Cache<Secret>,
}

impl Reconciler for BootstrapSigner {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let now = self.api.clock().now();
        let tokens = self.secrets.in_namespace(TOKENS_NAMESPACE);
        let tokens: Vec<Token> =
            tokens.iter().filter_map(Token::of).filter(|token| !token.is_over(now)).collect();
        let map = match self.api.get_as::<ConfigMap>(key) {
            Err(error) if error.is_not_found() => return Ok(()),
            found => found?,
        };
        if signed(&map, &tokens).is_some() {
            let modified = self.api.modify::<ConfigMap>(key, |map| {
                if let Some(data) = signed(map, &tokens) {
                    map.data = Some(data);
                }
                Ok(())
            });
            ignore_not_found(modified)?;
        }
        match tokens.iter().filter_map(|token| token.expires).min() {
            Some(first) => Err(ReconcileError::After(until(now, first))),
            None => Ok(()),
        }
    }
}

/// A bootstrap token that may sign.
struct Token {
    id: String,
    secret: String,
    /// The time at which it expires, if it does.
    expires: Option<Timestamp>,
}

impl Token {
    /// Reads a Secret; `None` if it is no token, or may not sign.
    fn of(secret: &SharedObject<Secret>) -> Option<Self> {
        let text = |field: &str| std::str::from_utf8(&secret.data.as_ref()?.get(field)?.0).ok();
        let id = secret.name().strip_prefix(TOKEN_PREFIX)?;
        let is_id = id.len() == ID_LENGTH && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        if !is_id || secret.type_.as_deref() != Some(BOOTSTRAP_TOKEN) || text("token-id") != Some(id) {
            return None;
        }
        if text("usage-bootstrap-signing") != Some("true") {
            return None;
        }
        let key = text("token-secret").filter(|key| !key.is_empty())?;
        Some(Self { id: id.into(), secret: key.into(), expires: expiration(secret) })
    }

    fn is_over(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }

    /// Signs a text.
    fn sign(&self, content: &str) -> String {
        let header = URL_SAFE_NO_PAD.encode(json!({"alg": "HS256", "kid": self.id}).to_string());
        let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.as_bytes());
        format!("{header}..{}", URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes())))
    }
}

/// Returns the map's data with the signatures of exactly these tokens; `None` if it has them already, or if there is
/// nothing to sign.
fn signed(map: &ConfigMap, tokens: &[Token]) -> Option<BTreeMap<String, String>> {
    let data = map.data.as_ref()?;
    let content = data.get(CONTENT)?;
    let mut signed = data.clone();
    signed.retain(|name, _| !name.starts_with(SIGNATURE));
    for token in tokens {
        signed.insert(format!("{SIGNATURE}{}", token.id), token.sign(content));
    }
    (signed != *data).then_some(signed)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;

    use super::*;
    use crate::test_cluster::TestCluster;
    use api::DeleteOptions;
    use object::Kind;

    /// The expected value was computed with Python's `hmac` and `base64`.
    #[test]
    fn a_secret_longer_than_a_block_of_the_hash_signs_api_15() {
        let token = Token { id: "fedcba".into(), secret: "a".repeat(100), expires: None };
        assert_eq!(
            token.sign("apiVersion: v1\nkind: Config\n"),
            "eyJhbGciOiJIUzI1NiIsImtpZCI6ImZlZGNiYSJ9..MsCxn2pZm-75rqNXhH3gaEI-1IghzIfFcE3vzzLaNEM"
        );
    }

    /// The values were computed by Python's `hmac`.
    #[tokio::test(start_paused = true)]
    async fn cluster_info_has_the_signature_of_every_signing_bootstrap_token_api_15() {
        const FIRST: &str =
            "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..vH_kT4yiol-nrAWgjfCYqvum5wsKETXe0S7OOp1VgnE";
        const OTHER: &str =
            "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..rzyC8pS3XexslHRwW9FeqzptOMUVs8LHDZMTZiFNsZ4";
        const SECOND: &str =
            "eyJhbGciOiJIUzI1NiIsImtpZCI6ImZlZGNiYSJ9..Y6epujbk5_Z8dJ3-6LWJ8CErPVS_1uZvq4GcUHtTNpA";
        let cluster = TestCluster::start(&["bootstrap-signer-controller"]);
        for name in ["kube-system", "kube-public"] {
            cluster.create::<Namespace>(json!({"metadata": {"name": name}}));
        }
        let now = cluster.api.clock().now().as_second();
        let in_a_minute = jiff::Timestamp::from_second(now + 60).unwrap().to_string();
        let key = Key::new("kube-public", "cluster-info");
        let signatures = || {
            let map = cluster.api.get_as::<ConfigMap>(&key).unwrap();
            let data = map.data.clone().unwrap_or_default();
            let signatures = data
                .into_iter()
                .filter_map(|(name, value)| Some((name.strip_prefix("jws-kubeconfig-")?.to_string(), value)));
            signatures.collect::<Vec<_>>()
        };
        let pairs = |expected: &[(&str, &str)]| {
            expected.iter().map(|(id, text)| ((*id).to_string(), (*text).to_string())).collect::<Vec<_>>()
        };
        let token = |name: &str, id: &str, secret: &str, more: &[(&str, &str)]| {
            let mut data = json!({"token-id": id, "token-secret": secret, "usage-bootstrap-signing": "true"});
            for (name, value) in more {
                data[*name] = (*value).into();
            }
            cluster.create::<Secret>(json!({"metadata": {"name": name, "namespace": "kube-system"},
                "type": BOOTSTRAP_TOKEN, "stringData": data}));
        };
        // A token before there is anything to sign.
        token("bootstrap-token-abcdef", "abcdef", "0123456789abcdef", &[("expiration", &in_a_minute)]);
        cluster.settle().await;
        cluster.create::<ConfigMap>(json!({"metadata": {"name": "cluster-info", "namespace": "kube-public"},
            "data": {"kubeconfig": "apiVersion: v1\nkind: Config\n", "jws-kubeconfig-gonegone": "old", "other": "kept"}}));
        cluster.settle().await;
        assert_eq!(signatures(), pairs(&[("abcdef", FIRST)]));
        token("bootstrap-token-fedcba", "fedcba", "s3cret", &[]);
        // None of these may sign.
        token("bootstrap-token-nosign", "nosign", "s3cret", &[("usage-bootstrap-signing", "false")]);
        token("bootstrap-token-others", "fedcba", "s3cret", &[]);
        token("bootstrap-token-toolong", "toolong", "s3cret", &[]);
        token("bootstrap-token-empty0", "empty0", "", &[]);
        token("bootstrap-token-over00", "over00", "s3cret", &[("expiration", "tomorrow")]);
        cluster.settle().await;
        assert_eq!(signatures(), pairs(&[("abcdef", FIRST), ("fedcba", SECOND)]));
        // Changes by others are reverted, and unnecessary writes are not made.
        let before = cluster.api.get_as::<ConfigMap>(&key).unwrap().metadata.resource_version.clone();
        cluster.pass(30).await;
        assert_eq!(cluster.api.get_as::<ConfigMap>(&key).unwrap().metadata.resource_version, before);
        let change = |name: &str, value: &str| {
            let set = |map: &mut ConfigMap| {
                map.data.get_or_insert_default().insert(name.into(), value.into());
                Ok(())
            };
            cluster.api.modify::<ConfigMap>(&key, set).unwrap();
        };
        change("jws-kubeconfig-fedcba", "forged");
        cluster.settle().await;
        assert_eq!(signatures(), pairs(&[("abcdef", FIRST), ("fedcba", SECOND)]));
        cluster
            .api
            .delete(
                Kind::Secret,
                &Key::new("kube-system", "bootstrap-token-fedcba"),
                &DeleteOptions::default(),
            )
            .unwrap();
        change("kubeconfig", "other: é\n");
        cluster.settle().await;
        assert_eq!(signatures(), pairs(&[("abcdef", OTHER)]));
        cluster.pass(31).await;
        assert_eq!(signatures(), pairs(&[]));
        assert_eq!(cluster.api.get_as::<ConfigMap>(&key).unwrap().data.as_ref().unwrap()["other"], "kept");
        cluster.stop().await;
    }
}
