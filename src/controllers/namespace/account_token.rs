//! Secrets of type `kubernetes.io/service-account-token`: each gets a token of the account in its annotation, the CA
//! and the namespace, and is deleted with that account (SA-1).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};

use crate::context::{Context, Settings};
use api::{Api, ApiError, Change};
use object::well_known::annotation::SERVICE_ACCOUNT_NAME;
use object::well_known::secret_type::SERVICE_ACCOUNT_TOKEN;
use object::{Key, SharedObject};
use reconcile::{Cache, ReconcileError, Reconciler, ignore_not_found, key_if, optional, preconditions};

const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

pub(crate) fn start(context: &Context) {
    context
        .controller(|_| AccountTokens {
            api: context.api.clone(),
            secrets: context.caches.of(),
            settings: context.settings.clone(),
        })
        .keys_of::<Secret>()
        .watches::<Secret, _>(|_, change| key_if::<Secret>(change, |secret| account_of(secret).is_some()))
        .watches::<ServiceAccount, _>(AccountTokens::account_changed)
        .workers(5)
        .run(&context.tasks);
}

struct AccountTokens {
    api: Api,
    secrets: Cache<Secret>,
    settings: Arc<Settings>,
}

impl Reconciler for AccountTokens {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Ok(secret) = self.api.get_as::<Secret>(key) else { return Ok(()) };
        let Some(name) = account_of(&secret) else { return Ok(()) };
        match optional(self.api.get_as::<ServiceAccount>(&Key::new(secret.namespace(), name)))? {
            Some(account) if is_of(&secret, &account) => Ok(self.fill(&secret, &account)?),
            // The account is deleted, or another has its name.
            _ => Ok(preconditions::delete_unchanged(&self.api, &secret)?),
        }
    }
}

/// Returns the account of a token Secret.
fn account_of(secret: &Secret) -> Option<&str> {
    let annotations = secret
        .metadata
        .annotations
        .as_ref()
        .filter(|_| secret.type_.as_deref() == Some(SERVICE_ACCOUNT_TOKEN))?;
    annotations.get(SERVICE_ACCOUNT_NAME).map(String::as_str).filter(|name| !name.is_empty())
}

fn is_of(secret: &Secret, account: &SharedObject<ServiceAccount>) -> bool {
    let uid = secret.metadata.annotations.as_ref().and_then(|a| a.get(ACCOUNT_UID));
    uid.is_none_or(|uid| uid.is_empty() || uid == account.uid())
}

impl AccountTokens {
    fn account_changed(&self, change: &Change) -> Vec<Key> {
        let account = &change.object;
        let secrets = self.secrets.in_namespace(account.namespace());
        let own = secrets.iter().filter(|secret| account_of(secret) == Some(account.name()));
        own.map(SharedObject::key).collect()
    }

    /// Adds missing keys to the Secret; an existing token stays.
    fn fill(
        &self,
        secret: &SharedObject<Secret>,
        account: &SharedObject<ServiceAccount>,
    ) -> Result<(), ApiError> {
        let text = |text: &str| ByteString(text.as_bytes().to_vec());
        let mut desired = BTreeMap::new();
        desired.insert("ca.crt", text(&self.settings.root_certificate));
        let has = |key: &str| secret.data.as_ref().and_then(|d| d.get(key)).is_some_and(|v| !v.0.is_empty());
        if !has("namespace") {
            desired.insert("namespace", text(account.namespace()));
        }
        if !has("token") {
            desired.insert("token", text(&self.api.token_for_secret(account, secret)?));
        }
        let filled = preconditions::modify(&self.api, secret, |fresh| {
            let data = fresh.data.get_or_insert_default();
            for (key, value) in &desired {
                // Keep a value that another writer has set meanwhile.
                if *key == "ca.crt" || data.get(*key).is_none_or(|known| known.0.is_empty()) {
                    data.insert((*key).into(), value.clone());
                }
            }
            let annotations = fresh.metadata.annotations.get_or_insert_default();
            annotations.insert(ACCOUNT_UID.into(), account.uid().into());
            Ok(())
        });
        ignore_not_found(filled)
    }
}
