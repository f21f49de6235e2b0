//! Deletes expired bootstrap tokens.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

use super::context::Context;
use api::Api;
use base::clock::until;
use object::Key;
use object::well_known::secret_type::BOOTSTRAP_TOKEN;
use reconcile::{Cache, ReconcileError, Reconciler, preconditions};

const NAMESPACE: &str = "kube-system";

pub(super) fn start(context: &Context) {
    let api = context.api.acting_as("token-cleaner");
    context
        .controller(|_| TokenCleaner { api, secrets: context.caches.of() })
        .for_::<Secret>()
        .run(&context.tasks);
}

struct TokenCleaner {
    api: Api,
    secrets: Cache<Secret>,
}

impl Reconciler for TokenCleaner {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(secret) = self.secrets.get(key).filter(|secret| is_token(key, secret)) else {
            return Ok(());
        };
        let Some(expiration) = expiration(&secret) else { return Ok(()) };
        let left = until(self.api.clock().now(), expiration);
        if !left.is_zero() {
            return Err(ReconcileError::After(left));
        }
        Ok(preconditions::delete(&self.api, &secret)?)
    }
}

fn is_token(key: &Key, secret: &Secret) -> bool {
    key.namespace.as_str() == NAMESPACE && secret.type_.as_deref() == Some(BOOTSTRAP_TOKEN)
}

/// Returns the time at which a token expires; an empty text is no time, an invalid one counts as expired.
pub(super) fn expiration(secret: &Secret) -> Option<Timestamp> {
    let text = &secret.data.as_ref()?.get("expiration").filter(|text| !text.0.is_empty())?.0;
    let text = std::str::from_utf8(text).unwrap_or("not a time");
    Some(text.parse().unwrap_or(Timestamp::UNIX_EPOCH))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use serde_json::json;

    use super::*;
    use crate::test_cluster::TestCluster;

    #[tokio::test(start_paused = true)]
    async fn a_bootstrap_token_goes_when_it_has_expired_api_15() {
        let cluster = TestCluster::start(&["token-cleaner-controller"]);
        cluster.create::<Namespace>(json!({"metadata": {"name": "kube-system"}}));
        let at = |seconds: i64| {
            let at = cluster.api.clock().now().as_second() + seconds;
            jiff::Timestamp::from_second(at).unwrap().to_string()
        };
        let token = |name: &str, type_: &str, expiration: Option<String>| {
            let mut data = json!({"token-id": name, "token-secret": "0123456789abcdef"});
            if let Some(expiration) = expiration {
                data["expiration"] = expiration.into();
            }
            cluster.create::<Secret>(
                json!({"metadata": {"name": name, "namespace": "kube-system"}, "type": type_,
                "stringData": data}),
            );
        };
        token("soon", BOOTSTRAP_TOKEN, Some(at(60)));
        token("over", BOOTSTRAP_TOKEN, Some(at(-60)));
        token("never", BOOTSTRAP_TOKEN, None);
        token("unreadable", BOOTSTRAP_TOKEN, Some("tomorrow".into()));
        token("empty", BOOTSTRAP_TOKEN, Some(String::new()));
        token("another", "Opaque", Some(at(-60)));
        let names = || {
            let secrets = cluster.api.list_as::<Secret>(Some("kube-system"));
            let mut names: Vec<String> = secrets.iter().map(|secret| secret.name().to_string()).collect();
            names.sort();
            names.join(" ")
        };
        cluster.settle().await;
        assert_eq!(names(), "another empty never soon");
        cluster.pass(61).await;
        assert_eq!(names(), "another empty never");
        cluster.stop().await;
    }
}
