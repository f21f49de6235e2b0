//! The ConfigMap `kube-root-ca.crt` of every namespace, by which pods trust the API (SA-1); and in kube-system the
//! one by which extension API servers authenticate clients, and the API itself when it proxies their requests
//! (API-17).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::service_account::ignore_races;
use crate::context::{Context, Settings};
use api::identity::{EXTRA_HEADER_PREFIX, GROUP_HEADER, UID_HEADER, USERNAME_HEADER};
use api::{Api, Change};
use apimachinery::certificates::FRONT_PROXY_CLIENT;
use base::sort::CollectMap;
use object::Key;
use object::owner::is_terminating;
use reconcile::{Cache, ReconcileError, Reconciler};

const NAME: &str = "kube-root-ca.crt";
/// The ConfigMap with the CA of client certificates; extension API servers do not start without it.
const EXTENSION_NAME: &str = "extension-apiserver-authentication";
const EXTENSION_NAMESPACE: &str = "kube-system";
const DESCRIPTION: (&str, &str) = (
    "kubernetes.io/description",
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the \
     internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes \
     clusters.",
);

pub(crate) fn start(context: &Context) {
    context
        .controller(|_| Publisher {
            api: context.api.clone(),
            namespaces: context.caches.of(),
            settings: context.settings.clone(),
        })
        .for_::<Namespace>()
        .watches::<ConfigMap, _>(|_, change| map_changed(change))
        .run(&context.tasks);
}

struct Publisher {
    api: Api,
    namespaces: Cache<Namespace>,
    settings: Arc<Settings>,
}

impl Reconciler for Publisher {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(namespace) = self.namespaces.get(key) else { return Ok(()) };
        if is_terminating(&namespace.metadata) {
            return Ok(());
        }
        let certificate = &self.settings.root_certificate;
        let data = [("ca.crt".to_string(), certificate.clone())].collect_map();
        self.publish(Key::new(key.name.as_str(), NAME), &data, Some(DESCRIPTION))?;
        if key.name == EXTENSION_NAMESPACE {
            let place = Key::new(EXTENSION_NAMESPACE, EXTENSION_NAME);
            self.publish(place, &self.extension_data(), None)?;
        }
        Ok(())
    }
}

impl Publisher {
    /// Returns the authentication data for extension API servers: clients with a certificate of the cluster, and the
    /// front proxy for identities in headers.
    fn extension_data(&self) -> BTreeMap<String, String> {
        let list = |text: &str| format!("[\"{text}\"]");
        let mut data = BTreeMap::new();
        data.insert("client-ca-file".to_string(), self.settings.root_certificate.clone());
        if let Some(front_proxy) = self.api.front_proxy() {
            let certificate = front_proxy.certificate_pem().to_string();
            data.insert("requestheader-client-ca-file".into(), certificate);
            for (entry, text) in [
                ("requestheader-allowed-names", FRONT_PROXY_CLIENT),
                ("requestheader-extra-headers-prefix", EXTRA_HEADER_PREFIX),
                ("requestheader-group-headers", GROUP_HEADER),
                ("requestheader-uid-headers", UID_HEADER),
                ("requestheader-username-headers", USERNAME_HEADER),
            ] {
                data.insert(entry.into(), list(text));
            }
        }
        data
    }

    /// Sets exactly this data, replacing changes by others.
    fn publish(
        &self,
        key: Key,
        data: &BTreeMap<String, String>,
        annotation: Option<(&str, &str)>,
    ) -> Result<(), ReconcileError> {
        let modified = self.api.modify::<ConfigMap>(&key, |map| {
            map.data = Some(data.clone());
            Ok(())
        });
        match modified {
            Err(error) if error.is_not_found() => {
                let map = ConfigMap {
                    metadata: ObjectMeta {
                        annotations: annotation
                            .map(|(name, text)| [(name.to_string(), text.to_string())].collect_map()),
                        ..key.metadata()
                    },
                    data: Some(data.clone()),
                    ..ConfigMap::default()
                };
                ignore_races(self.api.create_as(map).map(drop))
            }
            other => Ok(other.map(drop)?),
        }
    }
}

/// Restores maps that another client changes or deletes.
fn map_changed(change: &Change) -> Option<Key> {
    let is_managed = [NAME, EXTENSION_NAME].contains(&change.object.name());
    is_managed.then(|| Key::new("", change.object.namespace()))
}
